"""What the repositories of unit 8 contain: an operator added in two series, and a history with a planted fault."""

from __future__ import annotations

from fxopt_workbench.internals.repositories import Change

KERNEL = '''import math


def smooth_abs(x):
    """The absolute value, rounded off at zero: sqrt(x * x + 1) - 1."""
    return math.sqrt(x * x + 1) - 1
'''

STABLE = '''import math


def smooth_abs(x):
    """The absolute value, rounded off at zero: sqrt(x * x + 1) - 1."""
    # Written like this, small numbers keep their digits.
    return x * x / (math.sqrt(x * x + 1) + 1)
'''

SLOPE = '''

def slope(x):
    """The derivative of smooth_abs."""
    return x / math.sqrt(x * x + 1)
'''

TEST = """import math

from ops.smooth import smooth_abs

assert smooth_abs(0.0) == 0
assert math.isclose(smooth_abs(3.0), math.sqrt(10) - 1)
"""

TEST_SMALL = """assert math.isclose(smooth_abs(1e-6), 5e-13, rel_tol=1e-6)
"""

TEST_SLOPE = """
from ops.smooth import slope

step = 1e-6
assert math.isclose(slope(0.7), (smooth_abs(0.7 + step) - smooth_abs(0.7 - step)) / (2 * step), rel_tol=1e-6)
"""

TEST_FILE = "test_smooth.py"
"""What tests a checkout of either series."""

GOOD_SERIES = (
    Change(
        "Add smooth_abs with a test\n\nRobust losses need an absolute value that has a derivative at\n"
        "zero; so far users write it by hand, each a little differently.\n",
        {"ops/smooth.py": KERNEL, "test_smooth.py": TEST},
    ),
    Change(
        "Keep the digits of small numbers in smooth_abs\n\nsqrt(x * x + 1) - 1 subtracts nearly equal numbers: at\n"
        "1e-6 it was off by 1 part in 10,000.\n",
        {"ops/smooth.py": STABLE, "test_smooth.py": TEST + TEST_SMALL},
    ),
    Change(
        "Add the derivative of smooth_abs\n\nTraining needs it. The test compares it with a difference quotient.\n",
        {"ops/smooth.py": STABLE + SLOPE, "test_smooth.py": TEST + TEST_SMALL + TEST_SLOPE},
    ),
    Change(
        "Document smooth_abs\n\nWith the formula, and an example that can be run.\n",
        {"docs/smooth_abs.md": "smooth_abs(x) = sqrt(x * x + 1) - 1\n\n>>> smooth_abs(0.0)\n0.0\n"},
    ),
)
"""A series in which each commit can be read, and reverted, by itself."""

BAD_SERIES = (
    Change("WIP", {"ops/smooth.py": KERNEL + SLOPE.replace("math.sqrt", "sqrt"), "test_smooth.py": TEST + TEST_SLOPE}),
    Change("fix tests.", {"ops/smooth.py": STABLE + SLOPE}),
    Change(
        "Update smooth_abs and also tidy up the reading of settings while I was at it in that file",
        {"ops/smooth.py": STABLE + SLOPE + "\n", "settings/read.py": "DEFAULT = 1\n"},
    ),
    Change("more fixes", {"test_smooth.py": TEST + TEST_SMALL + TEST_SLOPE}),
)
"""The same operator, as it came to pass: it ends well, and nobody can review it."""

TEST_SCRIPT = """import math
import sys

try:
    from ops.smooth import smooth_abs
except SyntaxError:
    sys.exit(125)  # this commit does not even start: say neither good nor bad
sys.exit(0 if math.isclose(smooth_abs(0.2), math.sqrt(1.04) - 1, rel_tol=1e-9) else 1)
"""
"""The test of the long history, with the exit statuses of `git bisect run`."""

LENGTH = 40
"""Commits of the long history."""

PLANTED, UNREADABLE = 23, (19, 20)
"""Numbers of the commit that plants the fault, and of those that cannot be imported."""

FAULT_SUBJECT = "Return early for small numbers"


def history() -> list[Change]:
    """A history of `LENGTH` commits, all of which say something harmless, and one of which is not."""
    changes = []
    for number in range(LENGTH):
        lines = [f"# Reviewed {number} times." if number else ""]
        body = STABLE
        if number >= PLANTED:
            body = body.replace("    # Written", "    if abs(x) < 0.25:\n        return x * x / 2\n    # Written")
        if number in UNREADABLE:
            body += "\n\ndef unfinished(:\n"
        files: dict[str, str | None] = {"ops/smooth.py": body + "\n".join(lines) + "\n"}
        if number == 0:
            files["ops/__init__.py"] = ""
        changes.append(Change(_subject(number) + "\n", files))
    return changes


def _subject(number: int) -> str:
    if number == PLANTED:
        return FAULT_SUBJECT
    if number in UNREADABLE:
        return "Begin another function" if number == UNREADABLE[0] else "Go on with it"
    return f"{('Count the reviews', 'Tidy up a comment', 'Note one more review')[number % 3]} ({number})"
