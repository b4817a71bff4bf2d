"""Passes in sequence, to a fixpoint, on one graph."""

from __future__ import annotations

import math
import operator
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from fxopt_core.capture.module import tensors_of
from fxopt_core.graphs.cloning import clone_graph_module
from fxopt_core.graphs.editor import COMPUTES, GraphEditor, Rewrite
from fxopt_core.graphs.walks import nodes_in
from fxopt_core.passes import OptimizationPass, Refusal
from fxopt_core.passes.base import RequestError
from fxopt_core.verification.state import State

MOST_ROUNDS = 10
"""How often the sequence is repeated at most. Real graphs need two or three rounds."""


@dataclass(frozen=True)
class PassFailure:
    """A pass that raised, or left a broken graph, and was taken out of the sequence.

    Attributes:
        name: of the pass.
        reason: what it did.
    """

    name: str
    reason: str


@dataclass
class PipelineResult:
    """What a sequence of passes did to one graph.

    Attributes:
        graph_module: the optimised module; shares weights with the one given.
        rewrites: in order.
        refusals: of each pass, as it left the graph the last time that it ran.
        failures: passes that were taken out.
        seconds: time spent in each pass.
        rounds: how often the sequence ran until nothing changed.
    """

    graph_module: fx.GraphModule
    rewrites: list[Rewrite] = field(default_factory=list)
    refusals: dict[str, list[Refusal]] = field(default_factory=dict)
    failures: list[PassFailure] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    rounds: int = 0


class _BrokenPassError(Exception):
    def __init__(self, pass_: OptimizationPass, reason: str) -> None:
        super().__init__(reason)
        self.pass_ = pass_


def run_passes(
    graph_module: fx.GraphModule,
    passes: Sequence[OptimizationPass],
    *,
    denied: frozenset[str] = frozenset(),
    most: float = math.inf,
) -> PipelineResult:
    """Run passes in order, again and again until none changes anything.

    A pass that raises, leaves a malformed graph, changes it past the editor or writes into a tensor is rolled back:
    everything starts over from the given graph without it. The given module is never changed; while the passes run,
    its tensors are in memory twice.

    Args:
        graph_module: what to optimise.
        passes: in order.
        denied: keys of rewrites that are not to be made.
        most: how many rewrites are made; the first ones, which are the same whatever comes after them.
    """
    failures: list[PassFailure] = []
    remaining = list(passes)
    checked = False
    # The clone has the very tensors of the module, and whoever else captured, copied or compared it has them too.
    held = State({name: operator.attrgetter(name)(graph_module) for name in sorted(tensors_of(graph_module))})

    def check() -> None:
        if written := sorted(held.changes()):
            names = ", ".join(name[2:-2] for name in written)
            raise RuntimeError(f"it changes {names} in place; a pass has to give the graph new tensors instead")

    while True:
        result = PipelineResult(clone_graph_module(graph_module), failures=failures)
        before = _computed(result.graph_module.graph)
        try:
            try:
                run_in_place(result, remaining, denied, check=check if checked else None, most=most)
                check()
                if not checked and not _explained(before, result):
                    raise RuntimeError("the graph was changed past the editor")
                return result
            except BaseException:
                held.put_back()
                raise
        except _BrokenPassError as broken:
            failures.append(PassFailure(broken.pass_.name, str(broken)))
            remaining.remove(broken.pass_)
        except RuntimeError:
            if checked or not remaining:
                raise
            # Somebody broke the graph or wrote into it, or seems to. Once more with checks of each pass, to learn who.
            checked = True


def _computed(graph: fx.Graph) -> dict[fx.Node, Any]:
    return dict(zip(graph.nodes, map(COMPUTES, graph.nodes), strict=True))


def _explained(before: dict[fx.Node, Any], result: PipelineResult) -> bool:
    """Whether the log tells of everything that has changed. Where it does not, a closer look at each pass is needed."""
    after = _computed(result.graph_module.graph)
    logged = {node.name for rewrite in result.rewrites for node in (*rewrite.before, *rewrite.after)}
    replaced = {node.name for rewrite in result.rewrites if rewrite.after or rewrite.reused for node in rewrite.before}

    def redirected(was: Any, now: Any) -> bool:
        return was is not None and was[:2] == now[:2] and any(read.name in replaced for read in nodes_in(was[2:]))

    differing = [node for node, computed in after.items() if before.get(node) != computed]
    return (
        all(rewrite.before or rewrite.after for rewrite in result.rewrites)
        and [node for node in before if node in after] == [node for node in after if node in before]
        and all(node.name in logged for node in before if node not in after)
        and all(node.name in logged or redirected(before.get(node), after[node]) for node in differing)
    )


def run_in_place(
    result: PipelineResult,
    passes: Sequence[OptimizationPass],
    denied: frozenset[str] = frozenset(),
    *,
    check: Callable[[], None] | None = None,
    recompile: bool = True,
    most: float = math.inf,
) -> None:
    """Run the sequence on `result.graph_module` itself, and check the graph's structure once at the end.

    Args:
        result: where to note what happens.
        passes: in order.
        denied: keys of rewrites that are not to be made.
        check: called after each pass, whose structure is then checked too, and which is watched; whatever it raises
            takes the pass out.
        recompile: whether to generate the module's code at the end.
        most: how many rewrites are made.

    Raises:
        RuntimeError: the graph is malformed.
    """
    editor = GraphEditor(result.graph_module, most=most, watched=check is not None)
    # How many rewrites there were when a pass last looked: with no newer ones by others it would find nothing.
    seen: dict[int, int] = {}
    while result.rounds < MOST_ROUNDS:
        before = len(editor.rewrites)
        for number, pass_ in enumerate(passes):
            if seen.get(number) != len(editor.rewrites):
                _run_one(editor, pass_, result, denied, check)
                seen[number] = len(editor.rewrites)
        result.rounds += 1
        if len(editor.rewrites) == before:
            break
    result.rewrites = editor.rewrites
    editor.graph.lint()
    if recompile and editor.changed:
        result.graph_module.recompile()


def _run_one(
    editor: GraphEditor,
    pass_: OptimizationPass,
    result: PipelineResult,
    denied: frozenset[str],
    check: Callable[[], None] | None,
) -> None:
    start = time.perf_counter()
    try:
        made = pass_.run(editor, denied=denied)
        if check is not None:
            editor.graph.lint()
            check()
    except RequestError:
        raise
    except Exception as error:  # a pass may be anybody's; whatever it raises takes it out, and is reported
        raise _BrokenPassError(pass_, f"{type(error).__name__}: {error}") from error
    finally:
        result.seconds[pass_.name] += time.perf_counter() - start
    result.refusals[pass_.name] = made.refusals
