"""Entries for `native_functions.yaml` and the kernel that they name, for an operator with three variants."""
