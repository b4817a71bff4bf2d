"""Common-subexpression elimination: what was computed before need not be computed again."""
