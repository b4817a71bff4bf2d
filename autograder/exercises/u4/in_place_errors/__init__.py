"""In-place errors: those that raise, and those that say nothing."""
