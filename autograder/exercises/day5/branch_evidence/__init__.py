"""Tell tracing from scripting on a model with branches: what is in the graph, and which inputs come out wrong."""
