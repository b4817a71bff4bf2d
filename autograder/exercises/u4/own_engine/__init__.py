"""An engine of one's own for the graph that autograd recorded."""
