"""A device that exists in Python only, and a small network that is trained on it."""
