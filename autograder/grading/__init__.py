"""Grading a submission: the sandbox, the judge, and what becomes of it."""
