"""Mutation testing of the graders: right answers broken by program, which no judge may pass."""
