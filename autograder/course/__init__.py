"""What the course consists of, and where a learner stands in it."""
