"""Make control flow on data exportable: one graph for both sides of a branch and any number of steps."""
