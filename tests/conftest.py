"""Fixtures of several folders: a throw-away course for each test or module, and warm graders. Never the real workspace.

They are named here once: a fixture that two folders import is set up twice, once for each.
"""

from hypothesis import HealthCheck, settings
from rooms import classroom, course, fresh_course, plain, room, sandboxed

__all__ = ["classroom", "course", "fresh_course", "plain", "room", "sandboxed"]

# No example fails for being slow: on a busy machine any may be, and what it found is the same.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
