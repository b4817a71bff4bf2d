"""Which kernels of an operator run, for which tensors, within which blocks."""
