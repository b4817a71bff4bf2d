"""Measure compile cost against steady state, honestly, and compute the break-even number of calls."""
