"""Find out which sizes of a model's inputs may vary, and which must be equal."""
