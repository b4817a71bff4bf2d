"""Entries for `derivatives.yaml`: a formula for each argument."""
