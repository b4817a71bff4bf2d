"""Fixtures: the same throw-away course as for the tests of grading."""

from rooms import classroom, course, fresh_course, room

__all__ = ["classroom", "course", "fresh_course", "room"]
