"""What is kept of a grade: the gradebook and the feedback pages."""
