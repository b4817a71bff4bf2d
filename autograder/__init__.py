"""Exercises, grading and the learner's tools of the fxopt course."""
