"""`python -m tests.traps`: what our passes and PyTorch's make of every trap."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from traps.scoring import RIGHT, Outcome, available, of_peers, outcome_of_ours, scores, scores_of_comparisons

from autograder.traps.table import TRAPS


def _shown(outcome: Outcome) -> str:
    return outcome.verdict if outcome.verdict == RIGHT else f"{outcome.verdict}: {outcome.reason[:90]}"


def main() -> int:
    """Print both scores; the exit status is 1 if ours is not full."""
    warnings.simplefilter("ignore")
    found = {trap: ({"fxopt": outcome_of_ours(trap)} if available(trap) else {}) | of_peers(trap) for trap in TRAPS}
    console = Console()
    each = Table("trap", "what is special", "fxopt", "PyTorch", title="Traps")
    for trap, judged in found.items():
        peers = "\n".join(f"{who}: {_shown(outcome)}" for who, outcome in judged.items() if who != "fxopt")
        each.add_row(trap.name, trap.about, _shown(judged["fxopt"]) if "fxopt" in judged else "no such pass", peers)
    console.print(each)
    total = Table("family", "pass", "right", "wrong", "timid", title="Scores")
    for row in (*scores_of_comparisons(), *scores(found)):
        total.add_row(*map(str, row))
    console.print(total)
    return int(any(judged["fxopt"].verdict != RIGHT for judged in found.values() if "fxopt" in judged))


if __name__ == "__main__":
    sys.exit(main())
