"""The task tape_engine: an engine that records while the program runs."""
