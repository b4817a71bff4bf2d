"""Checkpointing: compute twice, keep less, and draw the same random numbers."""
