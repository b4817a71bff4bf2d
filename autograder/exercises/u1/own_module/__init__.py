"""A module framework of one's own: names, registration, and the walks over a tree of modules."""
