"""An interpreter of graphs, node by node."""
