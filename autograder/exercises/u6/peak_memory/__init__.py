"""The peak of a training step, read off its graph."""
