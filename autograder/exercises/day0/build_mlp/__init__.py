"""A two-layer network built as a graph, node by node."""
