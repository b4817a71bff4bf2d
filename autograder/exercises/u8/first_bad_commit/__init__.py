"""The commit that broke something, found with few tests, in a history with merges."""
