"""A mode that writes down each operator with the keys of its tensors."""
