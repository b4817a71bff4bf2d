"""What a right graph is: it computes what the two layers with a ReLU between them compute, and is one."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import decode, run
from autograder.exchange.graph_form.nodes import all_nodes, placeholders
from autograder.exercises.day0.build_mlp.visible import build, train

MISCONCEPTIONS = {
    "no graph module": (
        "Return a `torch.fx.GraphModule`: the graph alone does not know the layers, and a module alone is no graph."
    ),
    "traced": "Build the graph yourself, node by node: `symbolic_trace` is what you are learning to do without.",
    "no output": (
        "Your graph has no output node, so running it gives `None`: the last node is `graph.output(...)`, and it says "
        "what is returned."
    ),
    "not one input": "Your graph must take one input: make one `placeholder`, and nothing else.",
    "result is no tensor": "Your graph returns no tensor: hand the node itself to `graph.output`, not a list of nodes.",
    "does not lint": "`graph.lint()` complains about your graph: each node may read only nodes that stand before it.",
    "does not run": "Your graph does not run: the layers' sizes must fit, so mind who reads whose result.",
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
    "computes something else": "Your graph computes something else than second(relu(first(x))).",
}


def hidden_cases(random: Random) -> list[Case]:
    """Layers of random widths; the first case can be taken for the layers in the other order."""
    cases = []
    for number in range(3):
        width, middle = random.sample(range(3, 12), 2)
        parameters = {
            "widths": [width, middle, width if number == 0 else random.randint(2, 9)],
            "bias": random.random() < 0.5,
            "batch": random.randint(2, 6),
            "seed": random.randrange(2, 2**31),
        }
        cases.append(Case(f"hidden {number}", parameters))
    return cases


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
    theirs = decode(evidence.graphs["built"])
    inputs = len(placeholders(theirs))
    if inputs != 1:
        yield "not one input", f"(found {inputs} placeholders)"
        return
    unread = [node for node in all_nodes(theirs) if "relu" in str(node.target).lower() and not node.users]
    if unread:
        yield "activation never read", ""
        return
    first, second, x = build(case)
    train(first, second)
    fresh = torch.randn(7, x.shape[1], generator=torch.Generator().manual_seed(case.parameters["seed"] % 1000)) * 3
    with torch.no_grad():
        try:
            found = run(theirs, [fresh])
        except Exception as error:
            # Whatever an operation of the learner's graph raises for an input that fits the layers.
            yield "does not run", f"({error})"
            return
        if not isinstance(found, torch.Tensor):
            yield "result is no tensor", ""
            return
        if not agrees(found, second(torch.relu(first(fresh))), absolute=1e-6):
            yield _explain(found, first, second, fresh, case), ""
            return
        if not agrees(evidence.tensors.get("result"), second(torch.relu(first(x))), absolute=1e-6):
            yield "computes something else", "(the graph is right, but the module's code is another one: recompile)"
            return


def _explain(found: torch.Tensor, first: nn.Linear, second: nn.Linear, x: torch.Tensor, case: Case) -> str:
    old_first, old_second, _ = build(case)
    variants = {
        "copied the layers": lambda: old_second(torch.relu(old_first(x))),
        "activation forgotten": lambda: second(first(x)),
        "activation at the end": lambda: torch.relu(second(first(x))),
        "layers in the wrong order": lambda: first(torch.relu(second(x))),
    }
    for name, compute in variants.items():
        try:
            if agrees(found, compute(), absolute=1e-6):
                return name
        except RuntimeError:
            continue  # in this order the layers' sizes do not fit
    return "computes something else"
