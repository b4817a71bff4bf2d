"""Pictures and their texts tell parameters, buffers and constants apart, whatever graph they come from."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch._functorch.aot_autograd import aot_export_joint_simple, aot_export_joint_with_descriptors
from torch.fx.experimental.proxy_tensor import make_fx

from fxopt_core.capture import capture
from fxopt_core.graphs.editor import GraphEditor
from fxopt_workbench.explorer import explore
from fxopt_workbench.pictures import GraphPicture, draw
from fxopt_workbench.pictures.nodes import (
    STATES,
    NodeDescription,
    count_states,
    describe,
    exported_states,
    states_in_words,
)
from fxopt_workbench.pictures.style import STYLES

X = torch.ones(2, 4)


class Held(nn.Module):
    """Holds a parameter of its own, those of a layer, buffers of both kinds, a plain tensor and a literal one.

    The names of its arguments look like those of parameters and buffers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("seen", torch.ones(4))
        self.register_buffer("passing", torch.ones(4), persistent=False)
        self.plain = torch.ones(4)

    def forward(self, p_x: torch.Tensor, my_buffers_y: torch.Tensor) -> torch.Tensor:
        normed = self.norm(p_x) * self.scale + self.seen + self.passing
        return normed + self.plain + torch.tensor([1.0, 2.0, 3.0, 4.0]) + my_buffers_y


INPUTS = (X, torch.ones(2, 4))
IN_EXPORT = {
    "p_norm_weight": "parameter",
    "p_norm_bias": "parameter",
    "p_scale": "parameter",
    "b_norm_running_mean": "buffer",
    "b_norm_running_var": "buffer",
    "b_norm_num_batches_tracked": "buffer",
    "b_seen": "buffer",
    "b_passing": "buffer",
    "c_plain": "constant",
    "c_lifted_tensor_0": "constant",
    "p_x": "",
    "my_buffers_y": "",
}


def exported() -> torch.export.ExportedProgram:
    return torch.export.export(Held().eval(), INPUTS)


def placeholders(nodes: list[NodeDescription]) -> dict[str, str]:
    """The states of inputs by name; what a call or a result is has no state."""
    assert not any(node.is_state for node in nodes if node.kind in ("function", "method", "module", "output"))
    return {node.name: node.state for node in nodes if node.kind == "input" or node.kind in STATES}


def words(picture: GraphPicture) -> dict[str, tuple[str, str, str]]:
    """Of each box the first line, the word in the table, and the shape."""
    operations = {row[0].removeprefix("* "): row[1].partition(":")[0] for row in picture.scene.rows}
    return {
        box.name: (box.lines[0], operations[box.name], STYLES[box.kind].shape)
        for box in picture.scene.boxes
        if box.name in operations
    }


def test_an_exported_program_is_read_by_its_signature() -> None:
    program = exported()
    assert exported_states(program) == IN_EXPORT
    assert placeholders(describe(program.graph, exported_states(program))) == IN_EXPORT
    shown = words(draw(program))
    assert shown["p_norm_weight"] == ("parameter", "parameter", "note")
    assert shown["b_norm_running_mean"] == ("buffer", "buffer", "cylinder")
    assert shown["c_plain"] == ("constant", "constant", "octagon")
    assert shown["p_x"] == ("input", "input", "ellipse")


def test_without_its_signature_an_exported_graph_is_read_by_names() -> None:
    # Behind the constants a name says nothing any more: `p_x` is an argument.
    assert placeholders(describe(exported().graph_module.graph)) == IN_EXPORT


def test_a_module_of_an_exported_program_takes_only_inputs() -> None:
    nodes = describe(exported().module().graph)
    assert placeholders(nodes) == {"p_x": "", "my_buffers_y": ""}
    read = {node.operation.partition(":")[2]: node.word for node in nodes if node.operation.count(":")}
    assert read == {
        "norm.weight": "parameter",
        "norm.bias": "parameter",
        "scale": "parameter",
        "norm.running_mean": "buffer",
        "norm.running_var": "buffer",
        "norm.num_batches_tracked": "buffer",
        "seen": "buffer",
        "passing": "buffer",
        "plain": "constant",
        "lifted_tensor_0": "constant",
    }


def test_names_of_arguments_make_no_parameters_of_functions_of_aten() -> None:
    class Adds(nn.Module):
        def forward(self, x: torch.Tensor, p_weight: torch.Tensor) -> torch.Tensor:
            return x + p_weight

    program = torch.export.export(Adds(), INPUTS)
    for graph in (program, program.graph_module, program.module()):
        assert {box.kind for box in draw(graph).scene.boxes} <= {"input", "function", "module", "output"}


def test_dynamos_graph() -> None:
    graphs = []

    def backend(graph_module: fx.GraphModule, _: list[torch.Tensor]) -> fx.GraphModule:
        graphs.append(graph_module)
        return graph_module

    torch._dynamo.reset()
    torch.compile(Held().eval(), backend=backend, fullgraph=True)(*INPUTS)
    (graph_module,) = graphs
    assert {node.name.lower().strip("_"): node.word for node in describe(graph_module.graph) if node.inputs == ()} == {
        "l_p_x": "input",
        "l_self_modules_norm_buffers_running_mean": "buffer",
        "l_self_modules_norm_buffers_running_var": "buffer",
        "l_self_modules_norm_parameters_weight": "parameter",
        "l_self_modules_norm_parameters_bias": "parameter",
        "l_self_parameters_scale": "parameter",
        "l_self_buffers_seen": "buffer",
        "l_self_buffers_passing": "buffer",
        "l_self_plain": "constant",
        "l_my_buffers_y": "input",
        "tensor": "function",
    }


def test_an_argument_with_dynamos_words_in_its_name_is_no_parameter() -> None:
    graph_module = capture(lambda my_parameters: my_parameters["w"] + 1, ({"w": X},), "dynamo").graphs[0]
    (node,) = graph_module.graph.find_nodes(op="placeholder")
    assert "_parameters_" in node.name
    assert describe(graph_module.graph)[0].word == "input"
    # A copy has lost where Dynamo found the value, but not the example, which is no parameter.
    assert describe(copy.deepcopy(graph_module).graph)[0].word == "input"


def test_a_traced_module_is_asked_what_it_holds() -> None:
    class Traced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Module()
            self.inner.weight = nn.Parameter(torch.ones(4))
            self.inner.register_buffer("running_mean", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inner: Any = self.inner
            return (x - inner.running_mean) * inner.weight + torch.tensor([1.0, 2.0, 3.0, 4.0])

    traced = fx.symbolic_trace(Traced())
    traced.plain = torch.ones(4)
    with traced.graph.inserting_before(traced.graph.output_node()):
        (result,) = traced.graph.output_node().args
        plain = traced.graph.create_node("get_attr", "plain")
        traced.graph.output_node().args = (traced.graph.call_function(torch.add, (result, plain)),)
    nodes = describe(traced.graph)
    assert {node.operation: node.kind for node in nodes if node.is_state} == {
        "buffer:inner.running_mean": "get_attr buffer",
        "parameter:inner.weight": "get_attr parameter",
        "constant:_tensor_constant0": "get_attr constant",
        "constant:plain": "get_attr constant",
    }
    picture = draw(traced)
    shown = words(picture)
    assert shown["inner_running_mean"] == ("buffer", "buffer", "cylinder")
    assert shown["inner_weight"] == ("parameter", "parameter", "note")
    assert shown["plain"] == ("constant", "constant", "octagon")
    assert "1 parameter" in picture.alt_text()
    assert "1 buffer" in picture.alt_text()
    assert "2 constants" in picture.alt_text()


def test_what_a_pass_folds_is_a_constant_though_it_is_kept_as_a_buffer() -> None:
    traced = fx.symbolic_trace(lambda x: torch.relu(x))
    (relu,) = traced.graph.find_nodes(op="call_function", target=torch.relu)
    editor = GraphEditor(traced)
    with editor.rewrite("fold", relu):
        editor.constant(torch.ones(4), f"_folded_{relu.name}", like=relu)
    (held,) = (node for node in describe(traced.graph) if node.is_state)
    assert "_folded_relu" in dict(traced.named_buffers())
    assert held.operation == "constant:_folded_relu"


def test_a_get_attr_node_of_a_graph_is_none_of_them() -> None:
    class Decides(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    program = torch.export.export(Decides(), (X,))
    branches = [node for node in describe(program.graph) if node.kind == "attribute"]
    assert len(branches) == 2
    assert not any(node.is_state for node in branches)


def test_graphs_of_aotautograd_say_what_the_capture_knows() -> None:
    captured = capture(Held().train(), INPUTS, "aot")
    known = {one.name: one.kind for one in captured.partitions[0].inputs}
    assert {"parameter", "buffer", "input"} <= set(known.values())
    for graph in (captured.graphs[0], captured.partitions[0]):
        found = {row[0]: row[1] for row in draw(graph).scene.rows}
        assert {name: found[name] for name in known} == known
    # The backward graph takes some of the same values, under the same names, and tangents.
    (backward,) = (one for one in captured.partitions if one.role == "backward")
    again = {row[0]: row[1] for row in draw(backward.graph_module).scene.rows}
    shared = known.keys() & again.keys()
    assert {"parameter", "input"} <= {known[name] for name in shared}
    assert {name: again[name] for name in shared} == {name: known[name] for name in shared}
    assert again["tangents_1"] == "input"


def test_aotautograds_own_descriptions() -> None:
    with ExitStack() as stack:
        joint = aot_export_joint_with_descriptors(stack, nn.BatchNorm1d(4).train(), (X,)).graph_module
        words = [(node.name, node.word) for node in describe(joint.graph) if node.inputs == ()]
    # Weight and bias; the mean, the variance and the number of batches; and what the call hands in.
    expected = ["parameter"] * 2 + ["buffer"] * 3 + ["input"]
    primals = [(f"primals_{number}", word) for number, word in enumerate(expected, start=1)]
    assert words == [*primals, ("tangents_1", "input")]


def test_what_is_unknown_stays_an_input() -> None:
    def of_tensors(weight: torch.Tensor, running_mean: torch.Tensor) -> tuple[torch.Tensor]:
        return (weight - running_mean,)

    for graph_module in (aot_export_joint_simple(of_tensors, INPUTS, trace_joint=False), make_fx(of_tensors)(*INPUTS)):
        assert isinstance(graph_module, fx.GraphModule)
        assert [node.word for node in describe(graph_module.graph)][:2] == ["input", "input"]


def test_an_object_is_no_input() -> None:
    program = exported()
    (*_, first) = (spec for spec in program.graph_signature.input_specs if spec.target)
    first.kind = torch.export.graph_signature.InputKind.CUSTOM_OBJ
    picture = draw(program)
    assert words(picture)[first.arg.name] == ("object", "object", "trapezium")
    assert "1 object" in picture.alt_text()


@pytest.mark.parametrize("method", ["dynamo", "export", "symbolic_trace", "aot"])
def test_no_picture_calls_running_statistics_parameters(method: str) -> None:
    class Opened(nn.Module):
        """A batch normalisation whose statistics also `symbolic_trace` sees."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            norm = self.norm
            return nn.functional.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias)

    captured = capture(Opened().eval(), (X,), method)
    explorer = explore(captured)
    for rows in (draw(captured.graphs[0]).scene.rows, [row[:2] for row in explorer.table.rows]):
        states = [row[1].partition(":")[0] for row in rows if row[1].partition(":")[0] in STATES]
        # torch.export hands in what is not read, too: the number of batches.
        assert sorted(states) == ["buffer"] * (3 if method == "export" else 2) + ["parameter"] * 2
        statistics = [row[1].partition(":")[0] for row in rows if re.search("running_(mean|var)", row[0])]
        assert set(statistics) <= {"buffer"}
    for text in (explorer.text, draw(captured.graphs[0]).text, draw(captured.graphs[0]).alt_text()):
        assert "parameters and buffers" not in text
        assert "parameter or buffer" not in text


def test_the_explorer_knows_paths_of_buffers_and_constants() -> None:
    explorer = explore(exported())
    column = explorer.table.headings.index("path")
    paths = {row[0]: (row[1], row[column]) for row in explorer.table.rows}
    assert paths["p_scale"] == ("parameter", "scale")
    assert paths["b_norm_running_mean"] == ("buffer", "norm.running_mean")
    assert paths["c_plain"] == ("constant", "plain")
    assert paths["p_x"] == ("input", "")
    traced = explore(exported().module())
    assert next(row for row in traced.table.rows if row[0] == "norm_running_mean")[column] == "norm.running_mean"


def legend(picture: GraphPicture) -> set[str]:
    """The kinds in the legend."""
    return set(re.findall(r'"legend ((?:get_attr )?\w+)" \[', picture.dot)) - {"notes"}


def without_constants() -> torch.export.ExportedProgram:
    return torch.export.export(nn.BatchNorm1d(4).eval(), (X,))


@pytest.mark.parametrize(
    ("build", "states"),
    [
        (exported, {"parameter", "buffer", "constant"}),
        (without_constants, {"parameter", "buffer"}),
        (lambda: torch.export.export(nn.Linear(4, 4), (X,)), {"parameter"}),
        (lambda: torch.export.export(nn.ReLU(), (X,)), set()),
    ],
)
def test_legend_and_notes_count_each_kind_only_where_it_is(
    build: Callable[[], torch.export.ExportedProgram], states: set[str]
) -> None:
    program = build()
    assert legend(draw(program)) == {"input", "function", "output"} | states
    described = describe(program.graph, exported_states(program))
    counts = count_states(described)
    assert set(counts) == states
    hidden = draw(program, parameters="hide")
    assert {box.name for box in hidden.scene.boxes} == {node.name for node in described if not node.is_state}
    assert {row[0] for row in hidden.scene.rows} == {node.name for node in described}
    assert legend(hidden) == {"input", "function", "output"}
    notes = [note for note in hidden.scene.notes if note.endswith("not drawn.")]
    assert notes == ([f"{states_in_words(counts)} are not drawn."] if states else [])
    grouped = draw(program, collapse="modules")
    plurals = {f"{one}s" for one in STATES} & set(grouped.scene.header)
    assert plurals == {f"{one}s" for one in states}


def test_a_collapsed_picture_counts_what_each_box_reads() -> None:
    picture = draw(exported(), collapse="modules")
    assert picture.scene.header[:5] == ("box", "nodes", "parameters", "buffers", "constants")
    rows = {row[0]: row[1:5] for row in picture.scene.rows}
    assert rows["norm (BatchNorm1d)"] == ("1", "2", "2", "0")
    (box,) = (box for box in picture.scene.boxes if box.name == "norm (BatchNorm1d)")
    assert "1 node, 2 parameters and 2 buffers" in ", ".join(box.lines)
    assert "3 parameters, 5 buffers and 2 constants are not drawn." in picture.text


def test_counts_in_words() -> None:
    assert states_in_words({}) == ""
    assert states_in_words({"buffer": 1}) == "1 buffer"
    assert states_in_words({"parameter": 2, "constant": 1}) == "2 parameters and 1 constant"
    assert states_in_words({"parameter": 2, "buffer": 3, "object": 1}) == "2 parameters, 3 buffers and 1 object"


def test_what_is_handed_in_is_dashed_and_what_is_read_is_not() -> None:
    for one in STATES:
        assert STYLES[one].shape == STYLES[f"get_attr {one}"].shape
        assert (STYLES[one].border, STYLES[f"get_attr {one}"].border) == ("dashed", "solid")
    assert len({STYLES[one].shape for one in STATES}) == len(STATES)
