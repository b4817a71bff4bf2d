"""Subcommands of `fxopt`, one file each."""
