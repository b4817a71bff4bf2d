"""The task static_graph: an engine that knows the whole graph before it computes."""
