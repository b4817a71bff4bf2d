"""What must not run a second time, and what a second run would find changed."""

from __future__ import annotations

from itertools import accumulate

from torch import fx

from fxopt_core.graphs.aliases import OUTSIDE, Storages
from fxopt_core.graphs.effects import Effects, Storage
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.walks import inputs_of


@legality("recomputation: the unknown runs once")
def unknown_runs_once(effects: Effects) -> str | None:
    """A second run might do again whatever it does besides computing: call hooks, count, append to a cache."""
    return "nothing is known of what it does, so it must not run twice" if effects.opaque else None


@legality("recomputation: modes are switched once")
def modes_are_switched_once(effects: Effects) -> str | None:
    """The second run takes place in the mode of the first; a switch belongs to neither."""
    return "it switches the mode in which later nodes run" if effects.context else None


@legality("recomputation: a module's statistics are updated once")
def statistics_are_updated_once(node: fx.Node, effects: Effects) -> str | None:
    """A second run would update them again. (Where they are inputs of operators, it works on copies.)"""
    if node.op == "call_module" and any(isinstance(place, str) for place in effects.writes):
        return "its module changes its own buffers, and would change them twice"
    return None


@legality("recomputation: draws come again")
def draws_come_again(node: fx.Node, effects: Effects) -> str | None:
    """What is put back for the second run is the state of the global generators, and of no other."""
    if effects.random and node.kwargs.get("generator") is not None:
        return "it draws from a generator of its own, whose state is not put back"
    return None


@legality("recomputation: what is read stays")
def what_is_read_stays(later: bool) -> str | None:
    """The second run would read what was written since."""
    return "what it works on is written by a later node, before backward needs it again" if later else None


class Hazards:
    """Why nodes, or stretches of them, must not run a second time.

    Inputs are taken to be separate. Should one that is written overlap with others all the same, the region notices
    when it runs.

    Args:
        graph: the graph.

    Attributes:
        nodes: those that compute, in order. Stretches are numbers of these.
        barriers: why each of them must not run a second time, if so.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._storages = storages = Storages(graph, inputs_overlap=False)
        self.nodes = computing(graph)
        self._effects = [storages.effects(node) for node in self.nodes]
        self.barriers = [
            unknown_runs_once(effects)
            or modes_are_switched_once(effects)
            or statistics_are_updated_once(node, effects)
            or draws_come_again(node, effects)
            or ("it checks what is given, and once is enough" if effects.checks else None)
            for node, effects in zip(self.nodes, self._effects, strict=True)
        ]
        numbers = {node: number for number, node in enumerate(self.nodes)}
        # Of each storage: the number of the node that makes it, and of those that write it.
        self._made: dict[Storage, int] = {}
        for node in graph.nodes:
            self._made.setdefault(storages.of(node), numbers.get(node, -1))
        self._writes: dict[Storage, list[int]] = {}
        for number, effects in enumerate(self._effects):
            for place in (OUTSIDE,) if effects.opaque else effects.writes:
                self._writes.setdefault(storages.of(place), []).append(number)
        touched = [{storages.of(value) for value in (node, *node.all_input_nodes)} for node in self.nodes]
        self._touched = [places & self._writes.keys() for places in touched]
        # How many nodes so far must not run again, and how many work on memory that is written.
        self._barred = list(accumulate((reason is not None for reason in self.barriers), initial=0))
        self._risky = list(accumulate((bool(places) for places in self._touched), initial=0))

    def reason(self, first: int, end: int) -> str | None:
        """Why the second run of a stretch would not find what the first found, if so; `barriers` aside."""
        if self._risky[first] == self._risky[end]:
            return None
        for place in frozenset().union(*self._touched[first:end]):
            writes = self._writes[place]
            made = self._made.get(place, -1) >= first
            # Of what it writes itself the region keeps a copy as it was.
            copied = not made and any(first <= number < end and not self._effects[number].opaque for number in writes)
            if not copied and (reason := what_is_read_stays(writes[-1] >= end)):
                return reason
        return None

    def legal(self, first: int, end: int) -> bool | None:
        """Whether nodes may run again together; `None` where no stretch with this first node may reach so far."""
        return None if self._barred[first] != self._barred[end] else self.reason(first, end) is None

    def draws(self, first: int, end: int) -> bool:
        """Whether the nodes draw from the random stream."""
        return any(effects.random for effects in self._effects[first:end])

    def written(self, first: int, end: int) -> frozenset[str]:
        """Names of the values from before a stretch that lie in memory which the stretch writes."""
        written = {place for place, writes in self._writes.items() if any(first <= number < end for number in writes)}
        inputs = inputs_of(self.nodes[first:end])
        return frozenset(source.name for source in inputs if self._storages.of(source) in written)


def computing(graph: fx.Graph) -> list[fx.Node]:
    """The nodes that compute, in order."""
    return [node for node in graph.nodes if node.op in ("call_function", "call_method", "call_module")]
