"""Named attacks: each wants something else than a computation from `decode` or `run`, and is refused by name."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from canary import watching
from hostile_graphs import NODES, assign, base, node, refused, rename

from autograder.exchange.graph_form import EncodedGraph, GraphFormatError, decode, run
from autograder.exchange.graph_form.source import check_generated_code


def test_the_base_graph_itself_is_accepted_and_reaches_nothing():
    encoded = base()
    assert tuple(entry["name"] for entry in encoded.document["modules"][-1]["nodes"]) == NODES
    decode(encoded)
    run(encoded, [torch.rand(2, 3)])  # what torch itself imports at its first run is nothing that a graph reached
    with watching() as events:
        value, shape, text = run(encoded, [torch.rand(2, 3)])
    assert events == []
    assert value.shape == shape == (2, 3)
    assert text == "text"


def test_the_canary_sings():
    with watching() as events:
        os.listdir("/")
        exec(compile("1", "<attack>", "exec"))
    assert any(event.startswith("os.listdir") for event in events)
    assert any(event.startswith("exec") for event in events)
    assert any(event.startswith("compile") for event in events)


@pytest.mark.parametrize(
    "name",
    [
        "x; import os", "a\nimport os", "a=1", "a b", "", "1a", "a.b", "class", "None", "__class__", "self",
        "torch", "nan", "ｓｅｌｆ", "a" * 600, "a\x00", "a#", None, 1, ["a"], {"a": 1},
    ],
    ids=lambda name: ascii(name)[:20],
)  # fmt: skip
def test_code_in_the_name_of_a_node(name: Any):
    refused(rename("relu", name), "no usable name")


@pytest.mark.parametrize("target", ["x=print(1)", "x, *y", "*", "***x", "x: int", "self", "x)", "", "\n", None, 3])
def test_code_in_the_name_of_an_argument(target: Any):
    refused(assign("x", "target", target), "node 'x': .* no (usable )?name")


@pytest.mark.parametrize("key", ["x; import os", "a=1)#", "a b", "class", "", "__class__", "**x", "ａｌｐｈａ"])
def test_code_in_a_keyword(key: str):
    refused(assign("relu", "kwargs", {key: 1}), "no name of a keyword argument")


@pytest.mark.parametrize(
    "path", ["forward", "graph", "__class__", "_buffers", "linear.forward", "training", "linear", "", "..", "a;b", 3]
)
def test_get_attr_reaches_tensors_of_the_document_only(path: Any):
    refused(assign("scale", "target", path), "node 'scale': ")


@pytest.mark.parametrize(
    "path",
    [
        "forward", "graph", "_buffers", "_parameters", "recompile", "__class__", "training", "code", "linear",
        "linear.weight", "linear.x", "_in_spec.x.__class__", "a.b;c", "scale.x", "", None,
    ],
)  # fmt: skip
def test_an_attribute_never_takes_the_place_of_another(path: Any):
    def change(document: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        attributes = document["modules"][-1]["attributes"]
        attributes.append({**attributes[1], "path": path})
        attributes.append({**attributes[1], "path": path})

    refused(change, "attribute")


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        ({"class": "os.system"}, "module class .* not on the allow-list"),
        ({"class": "Module"}, "module class .* not on the allow-list"),
        ({"class": "TripletMarginWithDistanceLoss"}, "not on the allow-list"),
        ({"arguments": {"in_features": 3}}, "Linear takes in_features"),
        ({"arguments": {"in_features": "3", "out_features": 3, "bias": True}}, "does not accept its arguments"),
        ({"arguments": {"in_features": 3, "out_features": 3, "bias": False}}, "has weight, the document holds"),
        ({"arguments": {"in_features": {"node": "x"}, "out_features": 3, "bias": True}}, "is not defined before"),
        ({"state": []}, "has bias, weight"),
        ({"training": "yes"}, "expected true or false"),
        ({"kind": "pickle"}, "expected an object of kind"),
        ({"kind": "graph"}, "expected an object with kind"),
    ],
)
def test_modules_are_of_known_classes_with_known_arguments(entry: dict[str, Any], match: str):
    refused(lambda document, tensors: document["modules"][0].update(entry), match)


def test_a_recurrent_module_of_a_billion_layers():
    names = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size")
    arguments = dict.fromkeys(names, 10**9)
    refused(lambda d, t: d["modules"][0].update({"class": "LSTM", "arguments": arguments}), "1000000000 layers")


def test_a_module_of_terabytes_is_never_allocated():
    arguments = {"in_features": 10**7, "out_features": 10**7, "bias": True}
    encoded = base()
    document = copy.deepcopy(encoded.document)
    document["modules"][0]["arguments"] = arguments
    module = decode(EncodedGraph(document, encoded.tensors))
    assert module.linear.weight.shape == (3, 3)


def nested(depth: int, tag: str | None = None) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value] if tag is None else {tag: [value]}
    return value


@pytest.mark.parametrize("depth", [25, 900, 50_000])
@pytest.mark.parametrize("tag", [None, "tuple"])
def test_deep_nesting(depth: int, tag: str | None):
    encoded = base()
    node(encoded.document, "relu")["args"] = [nested(depth, tag)]
    with pytest.raises(GraphFormatError, match="nested more than"):
        decode(encoded)


def test_deep_nesting_everywhere_else():
    deep = nested(900)
    for place in ("name", "op", "target", "kwargs", "value"):
        encoded = base()
        node(encoded.document, "relu")[place] = deep
        with pytest.raises(GraphFormatError):
            decode(encoded)


@pytest.mark.parametrize(
    ("change", "match", "limits"),
    [
        (assign("relu", "args", [2**64]), "an integer of 65 bits", {}),
        (assign("relu", "args", [-(10**5000)]), "an integer of", {}),
        (assign("relu", "args", ["x" * 1001]), "a string of 1001 characters", {}),
        (assign("relu", "args", [[0] * 100]), "more than 50 argument entries", {"literals": 50}),
        (lambda d, t: None, "8 entries; at most 7", {"nodes": 7}),
        (lambda d, t: None, "2 entries; at most 1", {"modules": 1}),
        (lambda d, t: None, "at most 40 are accepted", {"tensor_bytes": 40}),
        (lambda d, t: None, "at most 2 are accepted", {"attributes": 2}),
    ],
)
def test_sizes_are_limited(change: Any, match: str, limits: dict[str, int]):
    refused(change, match, **limits)


def test_graphs_within_graphs_are_limited():
    encoded = base()
    document = copy.deepcopy(encoded.document)
    inner = document["modules"][-1]
    for _ in range(20):
        deeper = {"path": "sub", "module": len(document["modules"]) - 1}
        document["modules"].append({**inner, "attributes": [*inner["attributes"], deeper]})
    with pytest.raises(GraphFormatError, match="graphs nested more than 16 deep"):
        decode(EncodedGraph(document, encoded.tensors))


@pytest.mark.parametrize("index", [1, 2, -1, True, "0", None, 0.0])
def test_a_graph_cannot_contain_itself_or_a_later_one(index: Any):
    refused(lambda d, t: d["modules"][-1]["attributes"][0].update(module=index), "no index of a module before this one")


def test_cycles_and_forward_references():
    refused(
        assign("relu", "args", [{"node": "add_"}]),
        "node 'relu': refers to the node 'add_', which is not defined before it",
    )
    refused(assign("relu", "args", [{"node": "relu"}]), "node 'relu': refers to the node 'relu'")


def test_names_and_arguments_are_unique():
    refused(rename("relu", "x"), "node 'x': two nodes of this name")

    def second_argument(document: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        nodes = document["modules"][-1]["nodes"]
        nodes.insert(1, {**nodes[0], "name": "y"})

    refused(second_argument, "two placeholders for 'x'")

    def crossed(document: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        nodes = document["modules"][-1]["nodes"]
        nodes.insert(1, {**nodes[0], "name": "y", "target": "relu"})

    refused(crossed, "node 'relu': has the name of another placeholder's argument")


def test_there_is_one_output_and_it_is_the_last():
    refused(lambda d, t: d["modules"][-1]["nodes"].pop(), "ends with its output node")
    refused(lambda d, t: d["modules"][-1].update(nodes=[]), "without an output node")
    refused(lambda d, t: d["modules"][-1]["nodes"].reverse(), "ends with its output node")
    refused(assign("output", "args", [1, 2]), "an output node has one argument")
    refused(assign("relu", "op", "call"), "no op; expected one of")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda row: row.update(storage="storage9"), "not among the tensors that came"),
        (lambda row: row.update(dtype="float64"), "cannot be read as torch.float64|reach element"),
        (lambda row: row.update(dtype="load"), "no dtype"),
        (lambda row: row.update(offset=10**9), "reach element"),
        (lambda row: row.update(offset=-1), "expected an integer from 0"),
        (lambda row: row.update(shape=[4, 4]), "reach element"),
        (lambda row: row.update(shape=[2**40, 2**40], strides=[0, 0]), "too many elements"),
        (lambda row: row.update(strides=[1]), "sizes but 1 strides"),
        (lambda row: row.update(strides=[-1, -1]), "expected an integer from 0"),
        (lambda row: row.update(shape=[1] * 40, strides=[1] * 40), "at most 32 are accepted"),
        (lambda row: row.update(parameter=1), "expected true or false"),
        (lambda row: row.update(dtype="int32"), "cannot require gradients"),
        (lambda row: row.pop("offset"), "missing: offset"),
    ],
)
def test_tensors_fit_their_storage(change: Callable[[dict[str, Any]], Any], match: str):
    refused(lambda document, tensors: change(document["tensors"][0]), r"tensors\[0\].*" + match)


def test_tensors_that_are_missing_or_of_another_kind():
    refused(lambda d, t: t.clear(), r"tensors\[0\]: the storage 'storage0' is not among the tensors that came")
    refused(lambda d, t: t.update(storage0=t["storage0"].reshape(3, 3)), "contiguous tensor of one dimension")
    refused(lambda d, t: t.update(storage0=t["storage0"].to("meta")), "on the CPU")
    refused(lambda d, t: t.update(storage0=t["storage0"].to_sparse()), "one dimension|dense")
    refused(lambda d, t: t.update(storage0=torch.nn.Parameter(t["storage0"])), "contiguous tensor")


@pytest.mark.parametrize("key", ["format", "version", "tensors", "modules"])
@pytest.mark.parametrize("value", [None, 0, 2, True, "x", [], {}, [0], [None], [{}]])
def test_the_outer_form(key: str, value: Any):
    refused(lambda document, tensors: document.update({key: value}), f"{key}|document")
    refused(lambda document, tensors: document.pop(key), f"missing: {key}")


def test_what_torch_fx_cannot_compile_is_a_format_error():
    refused(assign("relu", "target", "operator.add"), "cannot make a program|its generated code")
    refused(lambda d, t: node(d, "relu").update(target="operator.iadd", args=[1, 2]), "cannot make a program")


def test_code_through_the_defaults_of_a_signature():
    """torch.fx 2.13 cuts `'a:'` at the colon, which opens a string that the next default closes: its rest is code."""

    def change(document: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        graph = document["modules"][-1]
        placeholder = {"op": "placeholder", "kwargs": {}, "value": None}
        graph["attributes"] = []
        graph["nodes"] = [
            {**placeholder, "name": "x", "target": "x", "args": ["a:"]},
            {**placeholder, "name": "y", "target": "y", "args": [";z=__import__('os').listdir('/');b:"]},
            {
                "name": "output",
                "op": "output",
                "target": "output",
                "args": [{"node": "x"}],
                "kwargs": {},
                "value": None,
            },
        ]
        graph["signature"] = {"arguments": ["x", "y"], "inputs": {"tuple": ["leaf", "leaf"]}, "outputs": None}

    refused(change, "no placeholders with default values")


@pytest.mark.parametrize(
    "signature",
    [
        {"arguments": ["x; import os"], "inputs": {"tuple": ["leaf"]}, "outputs": None},
        {"arguments": ["x", "x"], "inputs": {"tuple": ["leaf"]}, "outputs": None},
        {"arguments": ["x"], "inputs": {"os.system": ["leaf"]}, "outputs": None},
        {"arguments": ["x"], "inputs": {"tuple": ["leaf", "leaf"]}, "outputs": None},
        {"arguments": ["x"], "inputs": {"tuple": ["leaf"]}, "outputs": "leaf"},
        {"arguments": ["x"], "inputs": nested(60, "tuple"), "outputs": None},
        {"arguments": ["x"], "inputs": {"dict": [["a", "leaf"], ["a", "leaf"]]}, "outputs": None},
        {"arguments": ["x"], "inputs": {"dict": [[{"a": 1}, "leaf"]]}, "outputs": None},
        "x",
    ],
    ids=lambda signature: ascii(signature)[:60],
)
def test_signatures_hold_builtin_containers_only(signature: Any):
    refused(lambda document, tensors: document["modules"][-1].update(signature=signature), "signature")


@pytest.mark.parametrize(
    "value",
    [
        {"shape": ["'''"], "dtype": "float32"}, {"shape": ["s0\nimport os"], "dtype": "float32"},
        {"shape": [-1], "dtype": "float32"}, {"shape": [1], "dtype": "eval"}, {"type": "int; x"},
        {"type": "SymInt", "expression": '"""'}, "float32", 3,
        {"shape": [1], "dtype": "float32", "stack_trace": "x"}, nested(7),
    ],
    ids=lambda value: ascii(value)[:50],
)  # fmt: skip
def test_claimed_shapes_hold_nothing_but_shapes(value: Any):
    refused(assign("relu", "value", value), "node 'relu': value")


@pytest.mark.parametrize(
    "line",
    [
        "import os", "eval('1')", "torch.load('x')", "self.to_folder('x')", "x.__class__", "x.numpy()",
        "(lambda: 0)()", "[y for y in x]", "open('x')", "x = __import__", "del x", "f'{x}'", "global y",
        "torch.relu.__self__", "self.__class__", "print(x)", "(y := 1)", "getattr(self, 'x').to_folder('y')",
        "with x: pass", "raise x", "def f(): pass", "class C: pass", "(x)(1).__globals__",
    ],
)  # fmt: skip
def test_the_second_lock_refuses_code_that_no_graph_has(line: str):
    """Whatever hole the generator may have: here it is made on purpose, by a hook that adds a line."""
    graph_module = decode(base())
    check_generated_code(graph_module.graph, "graph")
    graph_module.graph.on_generate_code(lambda _: lambda body: [f"{line}\n", *body])
    with watching() as events, pytest.raises(GraphFormatError, match="its generated code holds"):
        check_generated_code(graph_module.graph, "graph")
    assert events == []


def test_large_computations_are_the_callers_to_limit():
    """Stated in `decode`: a graph may ask for a terabyte; it decodes, and fails only when it is run."""
    encoded = base()
    node(encoded.document, "relu").update(target="torch.zeros", args=[10**14])
    graph_module = decode(encoded)
    with pytest.raises(RuntimeError, match="memory"):
        run(graph_module, [torch.rand(2, 3)])
