"""What runs beside a learner's code."""
