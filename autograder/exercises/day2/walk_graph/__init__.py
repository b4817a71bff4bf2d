"""Which values several nodes read, and the longest chain of operations."""
