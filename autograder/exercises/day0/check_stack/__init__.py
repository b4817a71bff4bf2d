"""Which stacks of layers fit together."""
