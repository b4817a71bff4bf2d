"""What a run over tasks came to: rows, counts, and what is wrong. Imports no torch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from autograder.mutation.mutants import Mutant
from autograder.mutation.trials import Verdict

Kind = Literal["killed", "some seeds", "equivalent", "survivor"]


@dataclass(frozen=True)
class Row:
    """One mutant and what became of it.

    Attributes:
        mutant: the mutant.
        verdict: what the graders said.
        reason: why it is a right answer, where that is claimed; else `""`.
    """

    mutant: Mutant
    verdict: Verdict
    reason: str = ""

    @property
    def kind(self) -> Kind:
        """What it counts as."""
        if self.verdict.status != "survived":
            return self.verdict.status
        return "equivalent" if self.reason else "survivor"

    def to_json(self) -> dict[str, Any]:
        """Everything but the mutant's source, as JSON values."""
        mutant, verdict = self.mutant, self.verdict
        return {
            "answer": mutant.answer,
            "operator": mutant.operator,
            "line": mutant.line,
            "before": mutant.before,
            "after": mutant.after,
            "occurrence": mutant.occurrence,
            "digest": mutant.digest,
            "kind": self.kind,
            "by": verdict.by,
            "fixed": verdict.fixed,
            "seconds": verdict.seconds,
            "reason": self.reason,
        }


@dataclass
class TaskMutation:
    """All mutants of one task.

    Attributes:
        task: the task's name.
        rows: the mutants, in order.
        problems: one line each about what is wrong besides: an answer that does not pass itself, an entry of
            `equivalent.toml` that names no mutant.
        cached: how many verdicts were known before.
    """

    task: str
    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    cached: int = 0

    def of(self, kind: Kind) -> list[Row]:
        """The mutants of one kind."""
        return [row for row in self.rows if row.kind == kind]

    @property
    def false_claims(self) -> list[str]:
        """One line for each mutant that is said to be equivalent and is killed."""
        claimed = [row for row in self.rows if row.reason and row.verdict.status != "survived"]
        return [f"said to be equivalent, but killed by {row.verdict.by}: {row.mutant.described()}" for row in claimed]

    @property
    def ok(self) -> bool:
        """Whether every mutant is killed with every seed or equivalent, and nothing else is wrong."""
        wrong = self.of("survivor") or self.of("some seeds") or self.problems or self.false_claims
        return bool(self.rows) and not wrong

    def counts(self) -> dict[str, int]:
        """Figures for tables and records."""
        kinds = Counter(row.kind for row in self.rows)
        fixed = sum(row.verdict.fixed for row in self.of("killed"))
        reasons = {row.reason for row in self.of("equivalent")}
        return {
            "mutants": len(self.rows),
            "killed": kinds["killed"],
            "killed by fixed cases": fixed,
            "some seeds": kinds["some seeds"],
            "equivalent": kinds["equivalent"],
            "reasons": len(reasons),
            "survivors": kinds["survivor"],
        }

    @property
    def seconds(self) -> float:
        """Wall time of all gradings together, whenever they were."""
        return sum(row.verdict.seconds for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        problems = [*self.problems, *self.false_claims]
        return {
            "task": self.task,
            "ok": self.ok,
            "counts": self.counts(),
            "seconds": round(self.seconds, 1),
            "problems": problems,
            "rows": [row.to_json() for row in self.rows],
        }
