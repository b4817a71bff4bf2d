"""What each layer of a transformer costs."""
