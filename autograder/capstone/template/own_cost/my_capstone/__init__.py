"""A cost tool of my own for fxopt."""
