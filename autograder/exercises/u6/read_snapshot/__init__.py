"""What a snapshot of a caching allocator says about the memory that is reserved and not in use."""
