"""Find attention by its structure."""
