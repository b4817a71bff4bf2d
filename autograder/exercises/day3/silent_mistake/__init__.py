"""Find the input on which a trace is silently wrong: same shape or another, a difference and no error."""
