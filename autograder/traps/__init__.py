"""Programs that a wrong rewrite gets wrong: small traps, random programs, and an oracle that sees the difference."""
