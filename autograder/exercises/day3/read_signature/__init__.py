"""Read the signature of an exported program: which input is what, and which one nobody reads."""
