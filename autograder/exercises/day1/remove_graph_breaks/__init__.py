"""Remove graph breaks: the same results and gradients in one graph."""
