"""What a machine can do, and how long a graph would take on it."""
