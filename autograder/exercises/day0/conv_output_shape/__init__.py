"""The output shape of a convolution, from its numbers."""
