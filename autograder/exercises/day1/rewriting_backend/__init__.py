"""A backend that rewrites one operation and hands the graph on to a compiler."""
