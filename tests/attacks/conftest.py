"""Fixtures: the same throw-away course as for the other tests of grading."""

from rooms import classroom, course, fresh_course, plain, room, sandboxed

__all__ = ["classroom", "course", "fresh_course", "plain", "room", "sandboxed"]
