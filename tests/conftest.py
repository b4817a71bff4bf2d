"""Fixtures of several folders: a throw-away course for each test or module, and warm graders. Never the real workspace.

They are named here once: a fixture that two folders import is set up twice, once for each.
"""

from rooms import classroom, course, fresh_course, plain, room, sandboxed

__all__ = ["classroom", "course", "fresh_course", "plain", "room", "sandboxed"]
