"""A program that fails, made as small as it can be while it fails in the same way."""
