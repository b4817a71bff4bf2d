"""The traps, a file for each kind of pass."""
