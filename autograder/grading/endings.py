"""What a learner reads where the judge, or a graph that it had run, came to no proper end. Imports no torch."""

from __future__ import annotations

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
}
"""Message by misconception. After one of these a task's further cases are not tried: they would end likewise."""
