"""Predict, then measure, which method captures which model."""
