"""A pass of the learner's own, registered, and run by the optimiser."""
