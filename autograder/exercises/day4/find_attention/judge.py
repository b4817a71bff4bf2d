"""Which blocks there are: found by the judge from data flow, in a graph of its own."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exercises.day4.blocks import block, build, transformer

MISCONCEPTIONS = {
    "no list of triples": (
        "`find_attention` must return a list with a triple of nodes for each block: the product of query and key, the "
        "softmax, the product with the values."
    ),
    "counted softmax as attention": (
        "You found attention where only a softmax is: its input is no product of queries and keys (a gate's weights "
        "come from a linear layer, a classifier's from its head). Look at both sides of the softmax."
    ),
    "values never mixed": (
        "You found attention where the weights meet no values: nothing multiplies them as a matrix afterwards."
    ),
    "two products are no attention": (
        "You found attention where there is no softmax between the two products. ReLU or a logarithm in its place "
        "makes no weights that add up to one."
    ),
    "scores directly before the softmax only": (
        "You miss blocks: between the first product and the softmax may lie a scale, a mask that is added, or a cast. "
        "Walk up as long as the steps only change the scores' values."
    ),
    "values directly after the softmax only": (
        "You miss blocks: between the softmax and the second product may lie a cast or a dropout (it is off, but it is "
        "there). Walk down through them."
    ),
    "one operator only": (
        "You miss blocks that multiply with another operator: matrices in batches of three dimensions go through `bmm`."
    ),
    "sole user expected": (
        "You miss blocks whose weights are read by others, too, such as those that the model returns. One of the users "
        "is the product with the values."
    ),
    "stopped at the first": "You found the first block only: a model has one for each layer.",
    "other models overlooked": "You found blocks in some models and none in this one: is it the name that you go by?",
    "wrong nodes": (
        "The number of blocks is right, but these are not its nodes: product, softmax, product, in this order."
    ),
    "counted twice": "You counted a block more than once: each softmax belongs to one block.",
}

PRODUCTS = (torch.ops.aten.matmul.default, torch.ops.aten.bmm.default)
SOFTMAX = (torch.ops.aten.softmax.int, torch.ops.aten._softmax.default)


def hidden_cases(random: Random) -> list[Case]:
    """The same kinds of model in other sizes."""
    seed = random.randrange(2**31)
    scale = random.choice(["divided", "query", "late"])
    return [
        transformer("hidden encoder", "bert", layers=random.choice([1, 3]), heads=4, seed=seed),
        block("hidden stack", layers=random.randint(2, 4), scale=scale, seed=seed),
        block("hidden one head", layers=2, heads=False, cast=True, seed=seed),
        block("hidden gate", mixes="gate", seed=seed),
        block("hidden product", mixes=random.choice(["relu", "classes"]), seed=seed),
    ]


def blocks(graph: fx.Graph) -> list[tuple[str, str, str]]:
    """Product, softmax and product of each block, by name."""
    found = []
    for node in own_nodes(graph):
        if node.target in SOFTMAX:
            above = upwards(node.all_input_nodes[0])
            below = downwards(node)
            if above and below:
                found.append((above.name, node.name, below.name))
    return found


def upwards(node: fx.Node) -> fx.Node | None:
    """The product that is scaled, masked and cast into `node`. A mask is the other, second operand."""
    while node.op == "call_function" and node.target not in PRODUCTS:
        if not elementwise(node):
            return None
        node = node.all_input_nodes[0]
    return node if node.target in PRODUCTS else None


def downwards(node: fx.Node) -> fx.Node | None:
    """The product whose left operand is `node`, cast and with dropout."""
    for user in node.users:
        if user.target in PRODUCTS and user.args[0] is node:
            return user
        if user.op == "call_function" and elementwise(user) and (found := downwards(user)):
            return found
    return None


def elementwise(node: fx.Node) -> bool:
    """Whether a call scales, masks, casts or drops single numbers."""
    name = str(node.target).split(".")[1] if "." in str(node.target) else ""
    return name in {"mul", "div", "add", "sub", "to", "_to_copy", "type_as", "dropout", "where", "masked_fill"}


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What was found against what is there."""
    rows = evidence.values["found"]
    if rows is None or any(not isinstance(row, list) for row in rows):
        yield "no list of triples", f"(found a {evidence.values['kind']})"
        return
    wanted = blocks(build(case).graph)
    found = [tuple(row) for row in rows]
    if sorted(found) == sorted(wanted):
        return
    said = f"({len(found)} found, {len(wanted)} there)"
    form = case.parameters["form"]
    if len(found) > len(wanted):
        softmaxes = [row[1] for row in found]
        if wanted and len(set(softmaxes)) < len(softmaxes):
            yield "counted twice", said
        elif form.get("mixes") == "unused":
            yield "values never mixed", said
        elif form.get("mixes") in ("relu", "logarithm"):
            yield "two products are no attention", said
        else:
            yield "counted softmax as attention", said
    elif len(found) == len(wanted):
        yield "wrong nodes", f"(found {found[0]}, there is {wanted[0]})"
    elif found:
        yield "stopped at the first", said
    elif case.parameters["kind"] != "block":
        yield missing(case), said
    elif form.get("heads") is False and not form.get("cast"):
        yield "one operator only", said
    elif form.get("shared"):
        yield "sole user expected", said
    elif form.get("cast"):
        yield "values directly after the softmax only", said
    else:
        yield "other models overlooked", said


def missing(case: Case) -> str:
    """Why nothing was found in BERT, or in GPT-2, where casts lie behind the softmax, too."""
    return "scores directly before the softmax only" if case.parameters["kind"] == "bert" else "other models overlooked"
