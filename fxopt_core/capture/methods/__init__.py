"""Ways of turning a model into graphs, one a file."""
