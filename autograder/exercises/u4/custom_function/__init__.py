"""A custom autograd Function: rounding with a learned step, differentiable twice."""
