"""Dead-code elimination that keeps what has an effect."""
