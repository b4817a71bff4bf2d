"""Recomputation: what to compute again in the backward pass, so that a training step fits into a budget."""
