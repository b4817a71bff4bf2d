"""A function in C++ that reads what a tensor says of its storage, and its version."""
