"""What a learner reads where the judge, or a graph that it had run, came to no proper end. Imports no torch."""

from __future__ import annotations

from autograder.exchange.building import ENDLESS

OVERRUN = "judge overrun"
JUDGE_CRASHED = "judge crashed"
GRAPH_CRASHED = "graph crashed"
SLOW = "graph took too long"
HUNGRY = "graph took too much memory"
LARGE = "graph gave too much"

ENDINGS = {
    OVERRUN: "The judge took more than {seconds:g} seconds over what your code produced.",
    JUDGE_CRASHED: "The judge came to an end over what your code produced: it is too large to be read, or malformed.",
    GRAPH_CRASHED: (
        "Your graph crashed the process that ran it: {how}. Look for indices or sizes that do not fit the tensors that "
        "they are for."
    ),
    SLOW: (
        "Your graph did not finish in the time that there is for it and was stopped. The graphs of all your tasks "
        "together have {budget:.0f} seconds, and one task may take half of what is left."
    ),
    HUNGRY: "Your graph asked for more memory than there is for it ({memory:.0f} GiB).",
    LARGE: "Your graph gave more than can be compared: its results are too large.",
    ENDLESS: "The compiler came to no end over your source.",
}
"""Message by misconception. After one of these a task's further cases are not tried: they would end likewise."""

UNEXPLAINED = frozenset({"raised", "withheld import", "unreadable graph", "unreadable evidence", *ENDINGS})
"""Findings that say how an answer failed, and not what is wrong with it: its author can choose among them at will."""

HIDDEN_FAILED = (
    "Right on the visible cases, but not on hidden ones: there your code raises an exception, does not come to an end, "
    "or gives what cannot be read. Which of these is not told, for it could give the hidden case away. Try inputs of "
    "your own: other sizes and other values, the smallest and the largest that the task allows."
)
"""What a learner reads of a hidden case on which the answer was not wrong but failed."""

FAILED_HIDDEN = "failed on a hidden case"
"""The misconception of `HIDDEN_FAILED`."""
