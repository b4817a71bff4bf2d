"""What a layer costs: by a formula of the judge's own, for the formula as well as for the count."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.day4.blocks import build, transformer
from autograder.exercises.day4.layer_costs.visible import described

MISCONCEPTIONS = {
    "no numbers": "`layer_formula` must return a number, and `layer_costs` a list with a number for each layer.",
    "counted a multiply-add as one": (
        "You count a multiplication with its addition as one operation. Here they are two: a product of (n, k) and "
        "(k, m) takes 2·n·k·m."
    ),
    "forgot the attention products": (
        "The two products of attention are missing, query with key and weights with values: they have no parameters, "
        "but they cost. They grow with the *square* of the length."
    ),
    "forgot the linear layers": "The linear layers are missing: four in attention, two behind it.",
    "overlooked addmm": (
        "GPT-2's linear layers are missing: its graph writes them as `addmm(bias, input, weight)`, with the input "
        "second."
    ),
    "sums over addmm's bias": (
        "A product sums over the last size of its *first factor*. In GPT-2's `addmm(bias, input, weight)` that is the "
        "second argument: you took the size of the bias, which is the result's."
    ),
    "forgot the batch": "Your figure is for one text: every text of the batch costs as much.",
    "one head only": "You count one head: the products of attention are done for each head.",
    "one token only": "Your linear layers count one token: a linear layer is applied to every token of every text.",
    "inner width assumed": (
        "Your formula assumes that the feed-forward part is four times as wide as the model. It need not be: use "
        "`inner`."
    ),
    "three projections only": (
        "Attention has four linear layers: query, key, value, and one on the way out (`width` × `width` each)."
    ),
    "layers mixed up": (
        "Your list does not hold one number for each layer, in the order of the layers. `layer_of(node)` says which "
        "layer a node belongs to."
    ),
    "one layer for all": ("You count one layer and say the same of all. Layers may differ: count each one."),
    "counted what is outside": (
        "Your last or first row holds more than a layer: nodes that belong to no layer (embeddings, pooler) do not "
        "count."
    ),
    "counted a weight once": (
        "Two products may read the same weight, in one layer or in two, and each of them takes its operations. Count "
        "products, not weights."
    ),
    "changed the graph": (
        "Your count changes the graph, or goes on where an earlier count ended. Leave the graph as it is, `meta` "
        "included: keep what you find in a dictionary of your own, and begin at 0 each time."
    ),
    "wrong formula": "Your formula does not give what a layer costs.",
    "wrong count": "Your count over the graph is not what a layer costs.",
}


UNNAMED = ("wrong formula", "wrong count")
"""Say what is wrong, and name no mistake."""


SIZES = ([1, 1, 6, 7], [1, 9, 4, 5], [3, 1, 5, 8], [2, 5, 8, 2], [48, 509, 1021, 4093])
"""Sizes for the formula alone: one text, one token, a narrow inner part, and a large model, whose figure is long."""


def hidden_cases(random: Random) -> list[Case]:
    """Other sizes of both models, one text of one token, linear layers around the layers, and sizes for the formula."""
    cases = []
    for kind, heads in (("bert", 2), ("gpt2", 4)):
        sizes: dict[str, Any] = {
            "heads": heads,
            "width": 4 * heads * random.randint(1, 3),
            "inner": random.randint(17, 61),
        }
        sizes |= {"layers": random.randint(2, 3)}
        batch, length = random.randint(3, 5), random.randint(7, 11)
        seed = random.randrange(2**31)
        around = {"around": True} if kind == "gpt2" else {}
        cases.append(transformer(f"hidden {kind}", kind, batch=batch, length=length, seed=seed, **sizes, **around))
        cases[-1].parameters["sizes"] = [list(one) for one in SIZES]
        sizes["inners"] = random.sample(range(18, 60), sizes["layers"])
        sizes["inner"] = sizes["inners"][0]
        cases.append(
            transformer(f"hidden {kind}, layers that differ", kind, batch=2, length=length, seed=seed, **sizes)
        )
    inners = random.sample(range(5, 30), 10)
    inners.append(inners[3])  # eleven: as texts, "10" comes before "2"; two that cost the same are two
    sizes = {"heads": 2, "width": 4, "layers": len(inners), "inner": inners[0], "inners": inners}
    cases.append(transformer("hidden eleven layers", "gpt2", batch=2, length=3, seed=random.randrange(2**31), **sizes))
    sizes = {"heads": 2, "width": 4, "layers": 1, "inner": 7}
    cases.append(transformer("hidden one text of one token", "gpt2", batch=1, length=1, seed=3, **sizes))
    width, layers = 4 * random.randint(1, 3), random.randint(2, 3)
    for kind, inner in (("bert", random.randint(17, 61)), ("gpt2", width)):
        sizes = {"heads": 2, "width": width, "layers": layers, "inner": inner, "shared": True}
        name = f"hidden {kind}, weights that are shared"
        cases.append(transformer(name, kind, batch=2, length=3, seed=random.randrange(2**31), **sizes))
    return cases


def weights_once(case: Case) -> list[list[int]]:
    """What comes out where layers share weights, if a weight counts once in each layer, or once in all of them."""
    given, form = case.parameters, case.parameters["form"]
    if not form.get("shared"):
        return []
    product = 2 * given["batch"] * given["length"] * form["width"] ** 2  # of two linear layers one is left out
    figure = explanations(case)[""] - product
    first_of_all = 1 if given["kind"] == "bert" else 3  # GPT-2 has query, key and values in one
    return [[figure] * form["layers"], [figure, *[figure - first_of_all * product] * (form["layers"] - 1)]]


def explanations(case: Case, inner: int | None = None) -> dict[str, int]:
    """The right figure, under the empty name, and what each mistake comes to; of a layer of another `inner` width."""
    given, form = case.parameters, case.parameters["form"]
    inner = form["inner"] if inner is None else inner
    return explained(given["batch"], given["length"], form["width"], inner, form["heads"], given["kind"])


def explained(batch: int, length: int, width: int, inner: int, heads: int, kind: str) -> dict[str, int]:
    """The right figure of a layer of these sizes, under the empty name, and what each mistake comes to."""
    tokens = batch * length
    linear = 2 * tokens * (4 * width * width + 2 * width * inner)
    products = 2 * 2 * tokens * length * width
    # GPT-2 has query, key and values in one.
    by_bias = 2 * tokens * ((3 * width) ** 2 + width**2 + inner**2 + width**2)
    return {
        "": linear + products,
        "counted a multiply-add as one": (linear + products) // 2,
        "forgot the attention products": linear,
        "forgot the linear layers": products,
        "forgot the batch": (linear + products) // batch,
        "one head only": linear + products // heads,
        "one token only": linear // tokens + products,
        "inner width assumed": 2 * tokens * 12 * width * width + products,
        "three projections only": linear - 2 * tokens * width * width + products,
        # BERT has none, so that who overlooks it is right there.
        **({"overlooked addmm": products, "sums over addmm's bias": by_bias + products} if kind == "gpt2" else {}),
    }


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """The formula, then the rows of the table."""
    formula, costs = evidence.values["formula"], evidence.values["costs"]
    if formula is None or costs is None or any(cost is None for cost in costs):
        yield "no numbers", f"(found {formula} and {costs})"
        return
    known, form = explanations(case), case.parameters["form"]
    wanted = known.pop("")
    tables = [explanations(case, inner) for inner in form.get("inners") or [form["inner"]] * form["layers"]]
    right = [table.pop("") for table in tables]
    size = sum(right)
    if formula != wanted:
        fits = tuple(name for name, value in known.items() if value == formula)
        yield Deviation("wrong formula", fits, f"(formula {formula}, wanted {wanted})", size)
        return
    given = case.parameters
    for sizes, found in zip(given.get("sizes", []), evidence.values["formulas"], strict=True):
        batch, length, width, inner = sizes
        others = explained(batch, length, width, inner, 1, given["kind"])
        if found != (figure := others.pop("")):
            fits = tuple(name for name, value in others.items() if value == found)
            said = (
                f"(formula for batch {batch}, length {length}, width {width}, inner {inner}: {found}, wanted {figure})"
            )
            yield Deviation("wrong formula", fits, said, size)
            return
    yield Agreement("wrong formula", tuple(name for name, value in known.items() if value != wanted))
    if costs == right and evidence.values["again"] != right:
        yield "changed the graph", f"(counted {costs}, then on the same graph {evidence.values['again']})"
        return
    if costs == right and evidence.values["after"] != described(build(case)):
        yield "changed the graph", "(a node, or its `meta`, is not what it was)"
        return
    if costs == right:
        yield Agreement("wrong count", tuple(name for name in known if [table[name] for table in tables] != right))
        return
    said = f"(counted {costs}, there: {right})"
    if len(costs) != len(right) or sorted(costs) == sorted(right):
        yield "layers mixed up", said
    elif costs in weights_once(case):
        yield "counted a weight once", said
    elif len(set(right)) > 1 and costs == [right[0]] * len(right):
        yield "one layer for all", said
    elif sum(map(operator.ne, costs, right)) == 1 and sum(costs) > size:
        yield "counted what is outside", said
    else:
        fits = tuple(name for name in known if [table[name] for table in tables] == costs)
        yield Deviation("wrong count", fits, said, size)
