"""What crosses the wall between a learner's process and the judge."""
