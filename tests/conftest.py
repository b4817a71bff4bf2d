"""Fixtures of several folders: a throw-away course for each test or module, and warm graders. Never the real workspace.

They are named here once: a fixture that two folders import is set up twice, once for each.
"""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from rooms import classroom, course, fresh_course, plain, room, sandboxed
from switches import switches

from fxopt_core.verification.modes import modes_put_back

__all__ = ["classroom", "course", "fresh_course", "plain", "room", "sandboxed"]

# No example fails for being slow: on a busy machine any may be, and what it found is the same.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# A shell lets what it runs in the background ignore interrupts, `nohup` lets it ignore the end of its terminal, and
# whatever is started from there does the same. What the tests start is to be ended by these signals.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if "PYTEST_XDIST_WORKER" in os.environ and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def nothing_left_switched_on() -> Iterator[None]:
    """A test that leaves a mode of torch on fails itself, and not whichever comes after it in the same process."""
    with modes_put_back():
        before = switches()
        yield
        assert switches() == before
