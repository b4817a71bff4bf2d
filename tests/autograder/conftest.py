"""Fixtures: a throw-away course for each test or module, and warm graders. Never the real workspace."""

from rooms import classroom, course, fresh_course, plain, room, sandboxed

__all__ = ["classroom", "course", "fresh_course", "plain", "room", "sandboxed"]
