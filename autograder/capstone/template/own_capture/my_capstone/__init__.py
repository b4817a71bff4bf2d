"""A capture tool of my own for fxopt."""
