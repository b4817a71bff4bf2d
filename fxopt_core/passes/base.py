"""What an optimisation pass is."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from torch import fx

from fxopt_core.display import Displayable
from fxopt_core.graphs.editor import GraphEditor, Rewrite
from fxopt_core.verification import EXACT, Tolerance


class PassError(RuntimeError):
    """A pass broke its own promise: its postcondition does not hold, or the graph is malformed."""


class RequestError(ValueError):
    """What was asked of a pass cannot be done. The caller is told; any other exception only takes the pass out."""


class Opportunity(NamedTuple):
    """A place where a pass may rewrite the graph.

    Attributes:
        node: where; its name identifies the rewrite.
        data: what `transform` needs to know.
        rule: the rule within the pass, for passes of several.
        tolerance: how far this rewrite may be off; `None` for that of the pass.
    """

    node: fx.Node
    data: Any = None
    rule: str | None = None
    tolerance: Tolerance | None = None


class Refusal(NamedTuple):
    """A place that looked like an opportunity and was left alone.

    Attributes:
        node: the name of the node.
        reason: why, in words.
    """

    node: str
    reason: str


@dataclass
class Analysis:
    """What a pass found: opportunities in the order in which to take them, and refusals."""

    opportunities: list[Opportunity] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def refuse(self, node: fx.Node, reason: str) -> None:
        """Note that a place was left alone."""
        self.refusals.append(Refusal(node.name, reason))


@dataclass
class PassResult(Displayable):
    """What one run of a pass did.

    Attributes:
        name: of the pass.
        rewrites: every rewrite, in order.
        refusals: every place left alone, with the reason.
        statistics: how often each rule was applied; as "bytes added", what new constants and weights take.
    """

    name: str
    rewrites: list[Rewrite]
    refusals: list[Refusal]
    statistics: Counter[str] = field(default_factory=Counter)

    @property
    def changed(self) -> bool:
        """Whether the graph is another one now."""
        return bool(self.rewrites)


class OptimizationPass(ABC):
    """One kind of rewrite. The docstring of a pass is its algebra: what becomes what, when that is legal, how exact.

    A pass finds its opportunities before it changes anything; taking one must not invalidate another.
    Subclasses take their options as keyword arguments of `__init__`.
    """

    name: ClassVar[str] = ""
    """Set by `@register_pass`."""
    tolerance: Tolerance = EXACT
    """How far each rewrite may be off that does not say otherwise (`Opportunity.tolerance`).

    Anything but `EXACT` is opt-in, or stated in the docstring with its reason."""
    keeps_gradients: ClassVar[bool] = True
    """Whether gradients still reach the parameters. (They always reach the inputs.)"""

    @abstractmethod
    def analyze(self, editor: GraphEditor) -> Analysis:
        """Find what can be rewritten and what must not be. Changes nothing."""

    @abstractmethod
    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Take one opportunity. Called inside `editor.rewrite(...)`."""

    def verify(self, editor: GraphEditor, result: PassResult) -> None:  # noqa: B027  a pass may promise nothing
        """Check what the pass promises of the graph that it leaves.

        Raises:
            PassError: the promise is broken.
        """

    def require_gone(self, editor: GraphEditor, rewrites: Iterable[Rewrite]) -> None:
        """For `verify`: the nodes that the rewrites were found at are no longer in the graph.

        Raises:
            PassError: one is.
        """
        removed = {rewrite.node for rewrite in rewrites}
        left = [node.name for node in editor.graph.nodes if node.name in removed] if removed else []
        if left:
            raise PassError(f"{self.name}: {', '.join(left)} should be gone, and is still in the graph.")

    def run(self, editor: GraphEditor, *, denied: Iterable[str] = ()) -> PassResult:
        """Take every opportunity except those whose key (`rule@node`) is denied.

        Raises:
            PassError: the graph is not what the pass promises, or was changed past the editor.
        """
        # As often as a pass finds a lot, the collector would walk through all that there is, for next to nothing.
        was_on = gc.isenabled()
        gc.disable()
        try:
            return self._run(editor, frozenset(denied))
        finally:
            if was_on:
                gc.enable()

    def _run(self, editor: GraphEditor, denied: frozenset[str]) -> PassResult:
        before = editor.witness()
        analysis = self.analyze(editor)
        if not isinstance(analysis, Analysis):
            raise PassError(
                f"{self.name}: analyze returned {analysis!r}; expected an Analysis. Return Analysis([...])."
            )
        self._require_unchanged(editor, before, "analyze")
        # What was found at a place goes when it is rewritten, so that the many that follow take the same memory.
        pending, analysis = [*analysis.opportunities][::-1], Analysis(refusals=analysis.refusals)
        while pending and not editor.full:
            opportunity = pending.pop()
            rule = f"{self.name}/{opportunity.rule}" if opportunity.rule else self.name
            if denied and f"{rule}@{opportunity.node.name}" in denied:
                analysis.refuse(opportunity.node, "verification found that this rewrite changes what is computed")
                continue
            with editor.rewrite(rule, opportunity.node, tolerance=opportunity.tolerance or self.tolerance):
                self.transform(editor, opportunity)
        rewrites = editor.rewrites[before[0] :]
        statistics = Counter(rewrite.rule for rewrite in rewrites)
        if added := editor.bytes_added(rewrites):
            statistics["bytes added"] = added
        result = PassResult(self.name, rewrites, analysis.refusals, statistics)
        self.verify(editor, result)
        if not rewrites:
            self._require_unchanged(editor, before, "transform or verify")
        return result

    def _require_unchanged(self, editor: GraphEditor, before: list[Any], who: str) -> None:
        after = editor.witness()
        if after != before:
            compared = zip(editor.graph.nodes, before[1:], after[1:], strict=False)
            place = next((node.name for node, was, now in compared if was != now), "its end")
            raise PassError(
                f"{self.name}: {who} changed the graph past the editor, first at {place}; expected analyze only to "
                "look, and transform to use the editor's replace, change, insert or erase."
            )
