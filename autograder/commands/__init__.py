"""Subcommands of `fxopt` for the course."""
