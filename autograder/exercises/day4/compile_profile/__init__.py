"""Compile cost against benefit."""
