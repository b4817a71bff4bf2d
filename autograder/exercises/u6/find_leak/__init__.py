"""Two snapshots of a program's objects, a step apart: what grows, and what lets it."""
