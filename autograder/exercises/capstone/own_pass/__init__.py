"""The capstone task: a pass of the learner's own on traps, random programs and models."""
