"""A histogram of operations over all partitions of a model."""
