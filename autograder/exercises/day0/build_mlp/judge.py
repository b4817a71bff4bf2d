"""What a right graph is: it computes what the two layers with a ReLU between them compute, and is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import own_nodes, placeholders
from autograder.exercises.day0.build_mlp.visible import build, train
from autograder.exercises.graph_comparison import Calls, behaviour, first_difference, own_behaviour, same
from fxopt_core.graphs import operation_name

MISCONCEPTIONS = {
    "no graph module": (
        "Return a `torch.fx.GraphModule`: the graph alone does not know the layers, and a module alone is no graph."
    ),
    "traced": (
        "Build the graph yourself, node by node. A tracer, such as `symbolic_trace`, does what you are here to learn."
    ),
    "no output": (
        "Your graph has no output node, so running it gives `None`: the last node is `graph.output(...)`, and it says "
        "what is returned."
    ),
    "hidden in a module": (
        "Your graph calls something of your own, such as a `Sequential`, that hides what is computed. Make a node of "
        "each operation: the first layer, the ReLU, the second layer."
    ),
    "not one input": "Your graph must take one input: make one `placeholder`, and nothing else.",
    "result is no tensor": "Your graph returns no tensor: hand the node itself to `graph.output`, not a list of nodes.",
    "does not lint": "`graph.lint()` complains about your graph: each node may read only nodes that stand before it.",
    "does not run": (
        "Your graph does not run: an operation in it gets what it cannot take. Mind who reads whose result, and leave "
        "sizes and dtypes to the layers."
    ),
    "activation forgotten": "The ReLU between the layers is missing: without it two layers are no more than one.",
    "activation at the end": "The ReLU stands between the layers, not after the second.",
    "activation never read": (
        "There is a ReLU node, but nobody reads it: the second layer must take the node that `call_function` returned."
    ),
    "layers in the wrong order": "The first layer comes first.",
    "copied the layers": (
        "Your graph has copies of the layers: training it would not train the layers that you were given. Put the "
        "layers themselves into the root."
    ),
    "changed the layers": (
        "After your function the layers are not as they were: a parameter that was frozen is trained now, or one that "
        "was trained is frozen, or a mode has changed. Who learns is for those who made the layers to say."
    ),
    "changed the input": "Your graph writes into its input. The caller still has that tensor: leave it as it is.",
    "cannot be trained": (
        "Your graph computes the right values, but the layers cannot learn through it: no gradient reaches a weight, a "
        "bias or the input, or it is another one. Something detaches, or the weights are copied as plain tensors."
    ),
    "gradient at zero": (
        "Where the first layer gives exactly 0, a ReLU passes no gradient on; your graph does, as `clamp` and "
        "`maximum` do. The values agree, but training goes another way: call a ReLU."
    ),
    "not as ReLU does": (
        "For most numbers your graph is right, but `nan` or infinity becomes something else in what you put in "
        "place of the ReLU: `relu(nan)` is `nan`, and `relu(-inf)` is 0. Call a ReLU."
    ),
    "rounded on the way": (
        "In double precision your results agree to six or seven digits only: something on the way is rounded to single "
        "precision, or is only close to a ReLU. Leave the dtype to the layers, and call a ReLU."
    ),
    "computes something else": "Your graph computes something else than second(relu(first(x))).",
    "code is another one": (
        "Your graph is right, but the module runs other code: after changing `graph_module.graph`, call "
        "`graph_module.recompile()`."
    ),
}

UNNAMED = ("computes something else", "does not run")

FIXED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("one layer twice", {"widths": [5, 5, 5], "bias": True, "batch": 3, "twice": True}),
    (
        "double precision, partly frozen",
        {
            "widths": [3, 7, 2],
            "bias": True,
            "batch": 4,
            "dtype": "float64",
            "frozen": ["first.weight", "second.bias"],
            "evaluated": True,
        },
    ),
    ("sizes of one", {"widths": [1, 1, 1], "bias": True, "batch": 1}),
)
"""Layers of a hidden case for each class, the same for every seed but for their numbers."""


def hidden_cases(random: Random) -> list[Case]:
    """Layers of random widths, the first of which can be taken for the layers in the other order; then the fixed."""
    cases = []
    for number in range(2):
        width, middle = random.sample(range(3, 12), 2)
        parameters = {
            "widths": [width, middle, width if number == 0 else random.randint(2, 9)],
            "bias": number == 0,
            "batch": random.randint(2, 6),
            "seed": random.randrange(2, 2**31),
        }
        cases.append(Case(f"hidden {number}", parameters))
    return cases + [Case(f"hidden {name}", fixed | {"seed": random.randrange(2, 2**31)}) for name, fixed in FIXED]


SCALES = ((7, 3.0), (1, 1.0), (0, 1.0), (4, 200.0), (3, 0.0), (5, -0.05))
"""Batch sizes, from none to several, with how large the inputs are."""

SPECIAL = (float("nan"), float("inf"), -float("inf"))
"""One row for each, in one place of it: so much for values that are no ordinary numbers."""


def inputs_of(x: torch.Tensor, seed: int) -> list[list[torch.Tensor]]:
    """Inputs like `x`, one for each call: of other batch sizes and magnitudes, then what is no ordinary number.

    The first has a row of zeros, for which a layer without bias gives exactly 0.
    """
    generator = torch.Generator().manual_seed(seed % 1000)
    inputs = [torch.randn(rows, x.shape[1], generator=generator).to(x.dtype) * scale for rows, scale in SCALES]
    inputs[0][0] = 0.0
    special = torch.zeros(len(SPECIAL), x.shape[1], dtype=x.dtype)
    special[:, 0] = torch.tensor(SPECIAL, dtype=x.dtype)
    return [[value] for value in (*inputs, special)]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    values = evidence.values
    if values["traced"]:
        yield "traced", ""
        return
    if values["kinds"] is None:
        yield "no graph module", f"(found {values['kind']})"
        return
    if "output" not in values["kinds"]:
        yield "no output", ""
        return
    if values["lint"]:
        yield "does not lint", f"({values['lint']})"
        return
    if "opaque" in values:
        yield "hidden in a module", f"({values['opaque']})"
        return
    theirs = decode(evidence.graphs["built"])
    inputs = len(placeholders(theirs))
    if inputs != 1:
        yield "not one input", f"(found {inputs} placeholders)"
        return
    first, second, x = build(case)
    train(first, second)
    given = inputs_of(x, case.parameters["seed"])
    calls = Calls(given, given[0])
    wanted = own_behaviour(right_graph(first, second), calls)
    found = behaviour(theirs, calls)
    raised = next((call["raised"] for call in found["calls"] if "raised" in call), None)
    if raised is not None:
        rows = next(len(x) for (x,), call in zip(given, found["calls"], strict=True) if "raised" in call)
        yield "does not run", f"({rows} rows: {raised})"
        return
    if any(len(call["outputs"]) != 1 or call["structure"] != "*" for call in found["calls"]):
        yield "result is no tensor", ""
        return
    outputs = [call["outputs"][0] for call in found["calls"]]
    different = first_difference(wanted | {"gradients": {}}, found, relative=1e-5, absolute=1e-6)
    if different and different.kind == "inputs":
        yield "changed the input", f"({different})"
        return
    if different:
        ordinary = zip(outputs[:-1], wanted["calls"], strict=False)
        alike = all(same(one, call["outputs"][0], 1e-5, 1e-6) for one, call in ordinary)
        yield "not as ReLU does" if alike else _explain(outputs, theirs, case, calls), f"({different})"
        return
    if x.dtype == torch.float64:
        rounded = first_difference(wanted | {"gradients": {}}, found, relative=1e-10, absolute=1e-10)
        if rounded:
            yield "rounded on the way", f"({rounded})"
            return
    if lost := _lost_gradient(wanted["gradients"], found["gradients"], theirs, first, second):
        # Without the row that may give exactly 0, is every gradient there?
        elsewhere = Calls([], [given[0][0][1:]])
        ordinary = own_behaviour(right_graph(first, second), elsewhere)["gradients"]
        at_zero = not _lost_gradient(ordinary, behaviour(theirs, elsewhere)["gradients"], theirs, first, second)
        yield ("gradient at zero" if at_zero else "cannot be trained"), f"({lost})"
        return
    with torch.no_grad():
        right = second(torch.relu(first(x)))
    if not agrees(evidence.tensors.get("result"), right, absolute=1e-6):
        yield "code is another one", f"({values['ran']})" if values["ran"] else ""
        return
    if values["changed"]:
        yield "changed the layers", f"({', '.join(map(str, values['changed']))})"


def right_graph(
    first: nn.Linear, second: nn.Linear, activation: Callable[..., Any] = torch.relu, *more: float
) -> fx.GraphModule:
    """The judge's own graph, or that with another activation and more arguments for it."""
    graph = fx.Graph()
    hidden = graph.call_module("first", (graph.placeholder("x"),))
    graph.output(graph.call_module("second", (graph.call_function(activation, (hidden, *more)),)))
    return fx.GraphModule({"first": first, "second": second}, graph)


def _lost_gradient(
    wanted: dict[str, Any], found: dict[str, Any], theirs: fx.GraphModule, first: nn.Linear, second: nn.Linear
) -> str:
    """Which gradient is missing or another one, in words; `""` for none. Parameters are told by their numbers."""
    if "raised" in found:
        return f"the backward pass raises {found['raised']}"
    gradients, ours = found["gradients"], dict(right_graph(first, second).named_parameters())
    for name, right in wanted["gradients"].items():
        if name == "input 0":
            candidates = [gradients.get(name)]
        else:
            own = ours[name]
            equal = [key for key, value in theirs.named_parameters() if torch.equal(value, own)]
            candidates = [gradients.get(key) for key in equal]
        if not any(agrees(other, right, relative=1e-4, absolute=1e-5) for other in candidates):
            return f"for {name}"
    return ""


def _explain(found: list[torch.Tensor], theirs: fx.GraphModule, case: Case, calls: Calls) -> str:
    """The one mistake that explains the outputs of all calls; none is named where several would, or none."""
    first, second, _ = build(case)
    old_first, old_second, _ = build(case)
    train(first, second)
    variants: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "copied the layers": lambda x: old_second(torch.relu(old_first(x))),
        "activation forgotten": lambda x: second(first(x)),
        "activation at the end": lambda x: torch.relu(second(first(x))),
        "layers in the wrong order": lambda x: first(torch.relu(second(x))),
    }
    fits = []
    for name, compute in variants.items():
        try:
            with torch.no_grad():
                alike = [same(y, compute(x), 1e-5, 1e-6) for y, (x,) in zip(found, calls.inputs, strict=True)]
        except RuntimeError:
            continue  # in this order the layers' sizes do not fit
        if all(alike):
            fits.append(name)
    if fits == ["activation forgotten"] and _unread_activation(theirs):
        return "activation never read"
    return fits[0] if len(fits) == 1 else "computes something else"


def _unread_activation(theirs: fx.GraphModule) -> bool:
    return any("relu" in operation_name(node).lower() and not node.users for node in own_nodes(theirs))
