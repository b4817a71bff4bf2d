"""Task: choose an engine honestly."""
