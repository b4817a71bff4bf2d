"""How long the code of one submission may take, and what a learner reads who took longer. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Budget:
    """Wall time of one submission's code over all cells, tasks and rounds; what the judge takes does not count.

    Attributes:
        seconds: all that there is.
        used: what is used up.
        judged: what the judge took meanwhile, for reports.
    """

    seconds: float
    used: float = 0.0
    judged: float = 0.0

    @property
    def left(self) -> float:
        """What is left, in seconds; never less than 0."""
        return max(0.0, self.seconds - self.used)

    @property
    def seconds_to_judge(self) -> float:
        """Wall time that the judge has for all that the code produces; far more than an honest notebook ever takes."""
        return 3 * self.seconds


LOOPS = "Stopped after {seconds:g} seconds: your code did not finish. Look for a loop that never ends."

CUT_SHORT = (
    "Stopped: the code of one notebook has {budget:g} seconds altogether, and they were over while this task ran. "
    "Look for the cell that takes so long."
)

NEVER_RAN = (
    "Not run: the code of one notebook has {budget:g} seconds altogether, and what came before this task took them all."
)

HIDDEN_NEVER_RAN = (
    "Right on the visible cases, but the hidden ones were not run: the code of one notebook has {budget:g} seconds "
    "altogether, and they were over."
)

TOO_MUCH_TO_JUDGE = (
    "Not judged: what the code of one notebook produces may take the judge {budget:g} seconds altogether, and what "
    "came before this took them all."
)

BEFORE_IT = "Not run: the cell {cell} before this task {what}."
"""Of a task that was not reached; `what` is one of the two that follow."""

DID_NOT_FINISH, ENDED = "did not finish within {seconds:.0f} seconds", "ended the Python process"
