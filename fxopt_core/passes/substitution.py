"""When one value may stand for another one with the same elements."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import fx

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.examples import example_of
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.operations import Operations
from fxopt_core.graphs.walks import reached
from fxopt_core.passes.base import Analysis

_LEAVES = ("placeholder", "get_attr")


class GraphFacts:
    """What the legality of substitutions depends on, found out once for a graph and kept up to date.

    Args:
        editor: of the graph.

    Attributes:
        storages: its storage classes.
        timeline: where its modes are switched.
        outputs: the nodes that the graph may return as they are: its outputs, and what these may hand on.
    """

    def __init__(self, editor: GraphEditor) -> None:
        self.graph = editor.graph
        self.storages = editor.storages
        self.timeline = editor.timeline
        self.outputs = self._handing_on(self.graph.output_node().all_input_nodes)

    @cached_property
    def reads_storage(self) -> bool:
        """Whether a node looks at storage by absolute position, past the geometry of its argument."""
        return any("as_strided" in str(node.target) for node in self.graph.nodes)

    def substituted(self, node: fx.Node, value: fx.Node) -> None:
        """Note that `value` stands for `node` from now on."""
        self.storages.merge(value, node)
        if node in self.storages.returned:
            self.storages.returned.add(value)
        if node in self.outputs and value not in self.outputs:
            self.outputs |= self._handing_on([value])

    def _handing_on(self, values: list[fx.Node]) -> set[fx.Node]:
        return reached(values, lambda value: handed_on(self, value))


def handed_on(facts: GraphFacts, node: fx.Node) -> list[fx.Node]:
    """The arguments of which `node` may return one as it is, the very object: as a cast does that has nothing to do."""
    lent = facts.storages.lent_by(node)
    return [each for each in lent if same_tensor(example_of(each), example_of(node)) is None]


def size_key(sizes: Any) -> tuple[Any, ...]:
    """Sizes as comparable values; comparing symbolic ones themselves would make assumptions about inputs."""
    return tuple(size if isinstance(size, int) else size.node.expr for size in sizes)


def known(*examples: torch.Tensor | None) -> str | None:
    """Without the dtypes, shapes and strides of a capture it is not known what the elements are."""
    if any(example is None for example in examples):
        return "its dtype and shape are unknown; capture with torch.export or Dynamo, which keep them"
    return None


def same_tensor(found: torch.Tensor | None, wanted: torch.Tensor | None) -> str | None:
    """Dtype, shape, strides, device, and laziness of conjugates and signs can all be seen by who gets the tensor."""
    if found is None or wanted is None:
        return None
    if found.dtype != wanted.dtype:
        return f"its dtype would be {found.dtype} instead of {wanted.dtype}"
    if size_key(found.shape) != size_key(wanted.shape):
        return f"its shape would be {tuple(found.shape)} instead of {tuple(wanted.shape)}"
    if found.device != wanted.device or found.layout != wanted.layout:
        return f"it would be on {found.device} ({found.layout}) instead of {wanted.device} ({wanted.layout})"
    if found.layout != torch.strided:
        return f"tensors of the layout {found.layout} are not compared"
    if size_key(found.stride()) != size_key(wanted.stride()):
        return f"its strides would be {tuple(found.stride())} instead of {tuple(wanted.stride())}"
    if (found.is_conj(), found.is_neg()) != (wanted.is_conj(), wanted.is_neg()):
        return "one is a lazy conjugate or negative"
    return None


def same_place(facts: GraphFacts, found: torch.Tensor | None, wanted: torch.Tensor | None) -> str | None:
    """`as_strided` sees where in its storage a tensor lies, and how large the storage is."""
    if found is None or wanted is None or not facts.reads_storage:
        return None
    if _place(found) == _place(wanted):
        return None
    return "it would lie elsewhere in its storage, and the graph looks at storage with as_strided"


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return size_key((tensor.storage_offset(), tensor.untyped_storage().nbytes()))


def not_written(facts: GraphFacts, values: tuple[fx.Node, ...]) -> str | None:
    """A write must not reach what had storage of its own, and what is read must be what it was."""
    if facts.storages.pure:
        return None
    written = [value.name for value in values if facts.storages.written(value)]
    return f"the storage of {', '.join(written)} may be written to" if written else None


def returned_is_new(facts: GraphFacts, node: fx.Node, value: fx.Node) -> str | None:
    """Of new storage that the caller gets, nobody else may hold a part."""
    if node not in facts.storages.returned:
        return None
    if facts.storages.escapes(value) or facts.storages.effects(value).aliases:
        return f"it is returned with storage of its own, and {value} may share storage with something else"
    return None


def object_is_new(facts: GraphFacts, node: fx.Node, value: fx.Node) -> str | None:
    """Two returned views of one storage are two objects, and neither is an input."""
    if node in facts.outputs and (value in facts.outputs or value.op in _LEAVES):
        return f"it is returned, and would become the same object as {value}"
    return None


def same_mode(facts: GraphFacts, node: fx.Node, values: tuple[fx.Node, ...]) -> str | None:
    """Whether gradients flow, and what autocast makes of an operation, is decided by the mode where a node stands."""
    mode_of = facts.timeline.mode
    if not facts.timeline.switches:
        return None
    mode = mode_of(node)
    recorded = mode.gradients is True
    # Leaves have been made outside, in another mode: whoever uses the value has to use them in the same mode. And where
    # nothing is recorded, what hands something on may hand on such a leaf, which asks for gradients all the same.
    leaf = any(value.op in _LEAVES or (not recorded and handed_on(facts, value)) for value in values)
    others = [mode_of(value) for value in values if value.op not in _LEAVES]
    others += [mode_of(user) for user in node.users] if leaf else []
    if any(other != mode for other in others):
        return "a mode (gradients, autocast) may be switched in between"
    users = node.users if leaf and not recorded else ()
    further = [user for user in users if user.op == "output" or node in handed_on(facts, user)]
    return f"gradients may be off where it stands, and {further[0]} may hand it on as it is" if further else None


class Conditions:
    """The conditions above, as checks that are registered under the name of one pass."""

    def __init__(self, pass_name: str) -> None:
        self.known = legality(f"{pass_name}: values are known")(known)
        self.same_tensor = legality(f"{pass_name}: same tensor")(same_tensor)
        self.same_place = legality(f"{pass_name}: same place in storage")(same_place)
        self.not_written = legality(f"{pass_name}: nothing is written")(not_written)
        self.returned_is_new = legality(f"{pass_name}: returned values are new")(returned_is_new)
        self.same_mode = legality(f"{pass_name}: same mode")(same_mode)

    def why_not(
        self,
        facts: GraphFacts,
        node: fx.Node,
        value: fx.Node,
        examples: tuple[torch.Tensor | None, torch.Tensor | None],
        within: tuple[fx.Node, ...] = (),
    ) -> str | None:
        """Why `value`, which has the elements of `node`, may not stand for it, though `node` has storage of its own.

        Args:
            facts: of the graph.
            node: a value with storage of its own.
            value: an earlier value.
            examples: of `value` and `node`.
            within: the nodes between them: those through which `node` was computed from `value`.
        """
        return (
            self.known(*examples)
            or self.same_tensor(*examples)
            or self.same_place(facts, *examples)
            or self.not_written(facts, (node, value, *within))
            or self.returned_is_new(facts, node, value)
            or self.same_mode(facts, node, (value, *within))
        )


class Substitution:
    """One walk over a graph in which earlier values come to stand for later ones: for now only in thought.

    Args:
        editor: of the graph.
        operations: those that are looked at.

    Attributes:
        analysis: what was found so far.
        names: of the nodes that were looked at, in order, the operations that they call.
    """

    def __init__(self, editor: GraphEditor, operations: Operations) -> None:
        self.editor, self.operations = editor, operations
        self.analysis = Analysis()
        self.names: dict[fx.Node, str] = {}

    @cached_property
    def facts(self) -> GraphFacts:
        """Made when there is something to look at."""
        return GraphFacts(self.editor)

    def run(self) -> Analysis:
        """Look at each node that calls one of the operations."""
        functions, methods = self.operations.functions, self.operations.methods
        for node in self.editor.graph.nodes:
            kind = node.op
            if kind == "call_function":
                name = functions.get(node.target)
            elif kind == "call_method":
                name = methods.get(str(node.target))
            else:
                continue
            if name is not None:
                self.visit(node, name)
        return self.analysis

    def visit(self, node: fx.Node, name: str) -> None:
        """Look at a node that calls the operation of this name."""
        raise NotImplementedError
