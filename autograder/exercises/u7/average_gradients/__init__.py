"""Gradients of a batch that is dealt out unevenly, averaged in buckets."""
