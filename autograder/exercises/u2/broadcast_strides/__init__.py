"""Where in memory an element of a tensor lies."""
