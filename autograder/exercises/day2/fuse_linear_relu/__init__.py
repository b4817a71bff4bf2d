"""Fusion: a linear layer and the ReLU after it become one operator."""
