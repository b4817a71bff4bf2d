"""A pass of my own for fxopt."""
