"""The engine of PyTorch itself, watched by hooks, and engines with mistakes that explain what differs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.explaining import OnDemand
from autograder.exercises.u4.own_engine.engine import FLAWS, RIGHT, run_backward
from autograder.exercises.u4.own_engine.visible import (
    Program,
    another_graph,
    build,
    gradients_of,
    in_words,
    leaf,
    program,
    reached,
    watched,
)

MISCONCEPTIONS = {
    "no list of nodes": "`run_backward` must return a list: the nodes, in the order in which you called them.",
    "not the graph's nodes": (
        "Your list holds something that is no node of this graph. Put in the nodes themselves, as `next_functions` "
        "gives them, not names or copies."
    ),
    "recorded the backward pass": (
        "The gradients ask for gradients themselves: autograd recorded your backward pass. The engine switches that "
        "off unless you ask for `create_graph=True`. Call the nodes under `torch.no_grad()`."
    ),
    "closed to autograd": (
        "The gradients are inference tensors, and autograd refuses to record what is computed with one. "
        "`torch.inference_mode()` is for results that no gradient is ever asked of: call the nodes under "
        "`torch.no_grad()`."
    ),
    "autograd left off": (
        "After your function autograd is still switched off, so the next forward pass is not recorded. Use `with "
        "torch.no_grad():`, which puts back what was before, also where a node raises."
    ),
    "autograd left off after an error": (
        "A node raised an error, and after that autograd stayed switched off. Whoever catches the error and goes on "
        "finds that nothing is recorded any more. Use `with torch.no_grad():`, or a `finally` that puts back what was."
    ),
    "autograd switched on": (
        "Your function was called where autograd was switched off, and left it switched on. Put back what was before, "
        "whichever it was: `with torch.no_grad():` does."
    ),
    "an error hidden": (
        "A node raised an error, and your function returned as if nothing had happened. Let the error through, as "
        "PyTorch does: some gradients are missing, and nobody would notice."
    ),
    "another order": "The engine of PyTorch calls the nodes of this graph in another order.",
    "wrong gradients": "A leaf ends up with another gradient than PyTorch gives it.",
    "does not wait": (
        "A node was called before all its gradients had come. Count first how many edges lead to each node from what "
        "will run; call it when so many have arrived. That goes for the leaves as well: the sum would come out the "
        "same, but their hooks would run several times."
    ),
    "waits for each node once": (
        "You count nodes that lead to a node, not edges. In x * x, two edges lead from one node to another, and a "
        "gradient comes along each of them."
    ),
    "roots at once": (
        "You began at a tensor whose node still waits for gradients from the other tensors. Where backward begins, a "
        "node is ready only if nothing that will run leads to it."
    ),
    "one tensor after another": (
        "You ran one backward pass for each tensor. The engine takes all of them together, and calls every node once."
    ),
    "first in, first out": (
        "You take the node that has been ready longest. The engine takes the one with the highest sequence number: "
        "what the forward pass did last."
    ),
    "last in, first out": (
        "You take the node that became ready last. The engine takes the one with the highest sequence number: what the "
        "forward pass did last."
    ),
    "lowest first": "You take the lowest sequence number. The highest goes first: backward undoes what came last.",
    "leaves last": (
        "You keep the leaves for the end. AccumulateGrad has the highest sequence number there is, so it runs as soon "
        "as it is ready, and the memory of its gradient can be used at once."
    ),
    "keeps the last gradient": "Of several gradients for the same input of a node you keep the last. Add them up.",
    "output numbers ignored": (
        "The second part of an edge was not used: it says to *which* input of the next node the gradient belongs. A "
        "node such as unbind's has several."
    ),
    "gradient of another shape": (
        "A node refused a gradient whose shape is not that of its tensor. What was broadcast must be summed again, to "
        "the shape in the next node's `_input_metadata`: the engine does that, not the node. Or does the gradient "
        "belong to another input?"
    ),
    "dtypes not restored": (
        "A gradient arrives in another dtype than its tensor has. Bring it to the dtype in the next node's "
        "`_input_metadata`, as the engine does: at every node, at leaves and between, and the gradients that you are "
        "given, too."
    ),
    "waits for a gradient that is None": (
        "A node handed on `None`, and you did not count that edge down: the node behind it waits forever. `None` is no "
        "gradient, but nothing else will come over this edge. Call the node behind it once nothing is missing any more."
    ),
    "leaves filled by hand": (
        "The gradients are right, but no `AccumulateGrad` was called for some of them: hooks on the leaf do not run, "
        "and a `.grad` that somebody holds is not added to. It is a node like others: call it."
    ),
    "state of another call": (
        "One call of yours has an influence on the next one, over another graph of the same leaves. A node that raised "
        "may have left something behind. What you count and keep belongs to one call: make it anew inside the function."
    ),
    "given gradients overwritten": (
        "A gradient that the caller gave you has other numbers afterwards. Somebody may still need it, and the next "
        "backward pass begins with it: add gradients up with `x + y`, which makes a new tensor, and not with `+=` or "
        "`add_`."
    ),
    "zeros for None": (
        "You give a node zeros for an input to which no gradient came. Give it `None`: then the node leaves out what "
        "it need not compute, where zeros may be divided by zero."
    ),
}


LONGEST_EXPLAINED = 100
"""Nodes of a graph for which a mistake is looked for."""

FEWEST, TRIES = 9, 200
"""Nodes of a random program's graph, and how often one is drawn to reach so many."""


def hidden_cases(random: Random) -> list[Case]:
    """A case for each thing that an engine has to do, a long chain, and random programs."""
    seed = random.randrange(10**6)
    wide, flat = leaf(2, 3), leaf(3)
    fixed = {
        "the same input twice": program([wide], ["sin", 0], ["mul", 1, 1], ["add", 2, 2], ["cos", 3], tensors=[4]),
        "a leaf that ends early": program(
            [wide, leaf(2, 3), wide], ["sin", 0], ["mul", 3, 1], ["tanh", 4], ["mul", 5, 2], ["cos", 6], tensors=[7]
        ),
        "a leaf used twice": program([wide], ["sin", 0], ["cos", 1], ["add", 2, 0], ["tanh", 3], tensors=[4]),
        "a leaf used twice, between": program(
            [wide, wide], ["sin", 0], ["add", 1, 0], ["tanh", 2], ["mul", 3, 4], ["mul", 5, 1], tensors=[6]
        ),
        "two branches": program(
            [wide, wide], ["sin", 0], ["cos", 1], ["tanh", 2], ["tanh", 3], ["sin", 4], ["mul", 5, 6], tensors=[7]
        ),
        "three branches": program(
            [wide, wide, wide],
            *(["sin", 2], ["cos", 0], ["tanh", 1], ["cos", 5], ["sin", 3], ["tanh", 4], ["cos", 8], ["add", 6, 7]),
            *(["add", 10, 9],),
            tensors=[11],
        ),
        "several tensors": program([wide, flat], ["sin", 0], ["add", 2, 1], ["cos", 0], ["tanh", 3], tensors=[4, 5, 1]),
        "one tensor behind another": program([wide], ["sin", 0], ["cos", 1], ["tanh", 2], tensors=[3, 1]),
        "the same tensor twice": program([wide], ["sin", 0], ["cos", 1], tensors=[2, 2]),
        "a leaf alone": program([wide], tensors=[0]),
        "leaves alone": program([wide, wide, wide], tensors=[0, 1, 2]),
        "a leaf that nobody reads": program([wide, flat], ["sin", 0], ["cos", 2], tensors=[1, 3]),
        # The sum hands one tensor to both of its inputs, and at one of them more is added.
        "one gradient for two": program(
            [wide], ["sin", 0], ["cos", 0], ["tanh", 1], ["add", 1, 2], ["add", 4, 3], tensors=[5]
        ),
        # Here the other one still waits for its turn when more is added.
        "one gradient for two, of which one waits": program(
            [wide], ["cos", 0], ["sin", 0], ["tanh", 2], ["add", 2, 1], ["add", 4, 3], tensors=[5]
        ),
        "gradients of another dtype": program([leaf(2, 3, dtype="float32")], tensors=[0], gradients="float64"),
        "gradients of a narrower dtype": program([wide], tensors=[0], gradients="float32"),
        # In half as many bits, numbers that are rounded later are other numbers.
        "gradients of another dtype between": program(
            [leaf(8, 8, dtype="bfloat16"), leaf(8, 8)], ["sin", 0], ["tanh", 2], ["mul", 3, 1], tensors=[4]
        ),
        "gradients of another dtype at an inner node": program(
            [leaf(8, 8, dtype="bfloat16")], ["sin", 0], tensors=[1], gradients="float64"
        ),
        "leaves that ask for nothing": program(
            [wide, leaf(2, 3, asks=False)], ["mul", 0, 1], ["add", 1, 2], ["mul", 3, 1], tensors=[4]
        ),
        "an output that is not used": program([leaf(3, 4)], ["unbind", 0], ["mul", 2, 2], ["sin", 4], tensors=[5]),
        "two outputs of a node": program(
            [leaf(4, 3)], ["least and most", 0], ["mul", 1, 2], ["sub", 3, 2], tensors=[4]
        ),
        # All eigenvalues of the matrix are 0. A gradient of the vectors would be divided by their difference.
        "no gradient is not a gradient of zeros": program(
            [leaf(3, 3), flat], ["sub", 0, 0], ["eigenvalues", 2], ["add", 3, 1], ["sin", 5], tensors=[6]
        ),
        # The mean of a group has no derivative of its own: its node hands on `None`, before a gradient comes to the
        # first sine, after one has come to the second, and nothing else comes to the third.
        "a node hands on None": program(
            [wide, wide, wide],
            *(["sin", 0], ["sin", 1], ["sin", 2], ["tanh", 3], ["mean of a group", 4], ["tanh", 4]),
            *(["mean of a group", 5], ["mean of a group", 3], ["mul", 6, 8]),
            *(["add", 11, 7], ["add", 12, 9], ["add", 13, 10]),
            tensors=[14],
        ),
        # The same mean hands `None` to a node that has an input for each row.
        "nothing comes to a node with several inputs": program(
            [leaf(2, 2, 3), wide], ["unbind", 0], ["mean of a group", 2], ["sin", 1], ["add", 5, 4], tensors=[6]
        ),
        # The node of a stack hands on a gradient for each row, whether or not anything asks for it.
        "a gradient that leads nowhere": program([flat, leaf(3, asks=False)], ["stack", 0, 1], ["sin", 2], tensors=[3]),
        "broadcast between": program(
            [wide, flat], ["sin", 1], ["mul", 2, 2], ["add", 0, 3], ["cos", 4], ["sum", 5], ["add", 4, 6], tensors=[7]
        ),
        "broadcast in two directions": program([leaf(2, 1), flat], ["add", 0, 1], ["sub", 2, 0], tensors=[3]),
        # One dimension in front and one inside, two inside, two in front; and one that adds no numbers.
        "broadcast in three dimensions": program(
            [leaf(2, 1), leaf(1, 1), flat, leaf(1, 3), leaf(4, 2, 3)],
            *(["add", 2, 3], ["add", 0, 4], ["add", 1, 6], ["add", 5, 7], ["mul", 2, 8]),
            tensors=[9],
        ),
        "single precision": program(
            [leaf(2, 3, dtype="float32"), wide], ["add", 0, 1], ["sin", 0], ["sub", 2, 3], tensors=[4]
        ),
        "twice": program([wide], ["sin", 0], ["mul", 1, 0], tensors=[2], times=2),
        "a leaf times itself": program([wide], ["sin", 0], ["mul", 0, 0], ["add", 1, 2], tensors=[3]),
        # Both leaves have got a gradient when the node raises: one has had its turn, and the other waits for more.
        "a node that raises": program(
            [wide, wide],
            *(["sin", 0], ["tanh", 2], ["overwrite", 3], ["mul", 4, 1], ["add", 5, 0]),
            tensors=[6],
            raises=True,
            again=True,
        ),
        "another graph of the same leaves": program(
            [wide, flat], ["sin", 0], ["mul", 2, 1], ["mul", 3, 0], tensors=[4, 2], again=True
        ),
        # A gradient that is given is the first to come to a node, and one that comes later is added: at the end of an
        # inner node, of a leaf, and of a tensor that is there twice.
        "given gradients": program(
            [wide], ["sin", 0], ["mul", 1, 1], ["cos", 2], tensors=[*random.sample([0, 1, 2, 3], 4)], times=2
        ),
        "given twice": program([wide], ["sin", 0], ["tanh", 1], tensors=[2, 2, 1], times=2),
        "where nothing is recorded": program([wide], ["sin", 0], ["mul", 1, 1], tensors=[2], records=False),
        "a long chain": program([flat], *[["sin", number] for number in range(3000)], tensors=[3000]),
    }
    cases = [Case(name, {**given, "seed": seed + number}) for number, (name, given) in enumerate(fixed.items())]
    return cases + [Case(f"random {number}", random_program(random)) for number in range(5)]


def random_program(random: Random) -> Program:
    """A program whose graph has some nodes."""
    for _ in range(TRIES):
        given = _draw(random)
        if len(reached(build(given)[1])) >= FEWEST:
            return given
    raise RuntimeError(f"none of {TRIES} programs had a graph of {FEWEST} nodes")


def _draw(random: Random) -> Program:
    """Six to fourteen steps on values that can all be broadcast to two rows of three columns."""
    kinds = [leaf(2, 3), leaf(2, 3), leaf(3), leaf(2, 1), leaf(), leaf(2, 3, dtype="float32"), leaf(3, asks=False)]
    leaves = [leaf(2, 3), *(random.choice(kinds) for _ in range(random.randint(1, 3)))]
    sizes: list[tuple[int, ...]] = [tuple(one[0]) for one in leaves]
    asks = [bool(one[2]) for one in leaves]
    steps: list[list[Any]] = []
    results: list[tuple[int, ...]]
    for _ in range(random.randint(6, 14)):
        whole = [index for index, found in enumerate(sizes) if found == (2, 3)]
        name = random.choice(["sin", "cos", "tanh", "add", "sub", "mul", "mul", "add", "unbind", "stack", "total"])
        if name in ("unbind", "total"):
            indices = [random.choice(whole)]
            results = [(3,)] * (2 if name == "unbind" else 1)
        elif name == "stack":
            rows = [index for index, found in enumerate(sizes) if found == (3,)]
            if not rows:
                continue
            indices, results = [random.choice(rows), random.choice(rows)], [(2, 3)]
        elif name in ("sin", "cos", "tanh"):
            indices = [random.randrange(len(sizes))]
            results = [sizes[indices[0]]]
        else:
            # The later values are chosen more often, so that the graph grows deep.
            indices = [max(random.randrange(len(sizes)), random.randrange(len(sizes))) for _ in range(2)]
            results = [tuple(torch.broadcast_shapes(*(sizes[index] for index in indices)))]
        steps.append([name, *indices])
        sizes += results
        asks += [any(asks[index] for index in indices)] * len(results)
    possible = [index for index, one in enumerate(asks) if one]
    tensors = [possible[-1], *random.sample(possible, random.randint(0, min(2, len(possible))))]
    return program(leaves, *steps, tensors=tensors, seed=random.randrange(10**6))


Seen = tuple[list[list[int]], dict[str, torch.Tensor]]
"""For each pass the numbers of the nodes as they were called, and the gradient of each leaf that has one."""


def by_pytorch(given: Program) -> Seen:
    """What the engine of PyTorch does, told by a hook on every node."""
    leaves, tensors, gradients = build(given)
    orders: list[list[int]] = []
    handles = []
    # A leaf that nothing else reads has its node, and the hook on it, only as long as somebody holds the node.
    nodes = reached(tensors)
    for number, node in enumerate(nodes):

        def note(_: Any, number: int = number) -> None:
            orders[-1].append(number)

        handles.append(node.register_prehook(note))
    for _ in range(given["times"]):
        orders.append([])
        torch.autograd.backward(tensors, gradients, retain_graph=True)
    for handle in handles:
        handle.remove()
    return orders, gradients_of(leaves)


def filled_by_pytorch(given: Program) -> list[int]:
    """The leaves that an `AccumulateGrad` fills, one for each call of it."""
    leaves, tensors, gradients = build(given)
    with watched(leaves) as filled:
        for _ in range(given["times"]):
            torch.autograd.backward(tensors, gradients, retain_graph=True)
    return filled


def again_by_pytorch(given: Program) -> dict[str, torch.Tensor]:
    """The gradients of the other graph of the same leaves."""
    leaves, _, _ = build(given)
    torch.autograd.backward(*another_graph(leaves))
    return {f"again, {name}": gradient for name, gradient in gradients_of(leaves).items()}


def by_model(given: Program, flaws: frozenset[str] = RIGHT) -> Seen | None:
    """What an engine with flaws does; `None` where it fails."""
    leaves, tensors, gradients = build(given)
    nodes = reached(tensors)
    numbers = {node: number for number, node in enumerate(nodes)}
    try:
        orders = [[numbers[node] for node in run_backward(tensors, gradients, flaws)] for _ in range(given["times"])]
    except (RuntimeError, IndexError):
        return None
    return orders, gradients_of(leaves)


def as_comparable(order: list[int], leaves: set[int]) -> list[list[int]]:
    """An order without what the engine leaves open: of leaves that are ready together, any may go first."""
    groups: list[list[int]] = []
    for number in order:
        if number in leaves and groups and groups[-1][0] in leaves:
            groups[-1].append(number)
        else:
            groups.append([number])
    return [sorted(group) for group in groups]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What differs from PyTorch's engine in this case, and the mistakes that explain it."""
    given = case.parameters
    nodes = reached(build(given)[1])
    if "refused" in evidence.values:
        yield "gradient of another shape", f"({evidence.values['refused']})"
        return
    if given["raises"]:
        if evidence.values["raised"] is not True:
            yield "an error hidden", ""
        if evidence.values["recording"] != [True]:
            yield "autograd left off after an error", ""
        if not _alike(again_by_pytorch(given), _again(evidence)):
            yield "state of another call", ""
        return
    leaves = {number for number, node in enumerate(nodes) if in_words(node) == "AccumulateGrad"}
    orders = evidence.values["orders"]
    if len(orders) != given["times"] or None in orders:
        yield "no list of nodes", ""
        return
    if any(not isinstance(one, int) or not 0 <= one < len(nodes) for order in orders for one in order):
        yield "not the graph's nodes", ""
        return
    if evidence.values["recorded"]:
        yield "recorded the backward pass", f"({', '.join(evidence.values['recorded'])[:80]})"
        return
    if evidence.values["closed"]:
        yield "closed to autograd", f"({', '.join(evidence.values['closed'])[:80]})"
        return
    if evidence.values["recording"] != [given["records"]] * given["times"]:
        yield "autograd left off" if given["records"] else "autograd switched on", ""
        return
    wanted_orders, wanted = by_pytorch(given)
    found = [as_comparable(order, leaves) for order in orders]
    right = [as_comparable(order, leaves) for order in wanted_orders]
    # A long chain would take long with each of them, and tells nothing that a short one does not.
    ways = FLAWS if len(nodes) <= LONGEST_EXPLAINED else {}
    flawed = OnDemand(ways, lambda name: [by_model(given, flaws) for flaws in ways[name]])
    gradients = {name: one for name, one in evidence.tensors.items() if name not in _again(evidence)}

    def same(seen: Seen | None, orders: list[Any], gradients: dict[str, torch.Tensor]) -> bool:
        return (
            seen is not None
            and [as_comparable(one, leaves) for one in seen[0]] == orders
            and _alike(seen[1], gradients)
        )

    if found == right and _alike(wanted, gradients):

        def excluded(names: Collection[str]) -> list[str]:
            return [
                name for name in names if name in ways and not any(same(one, right, wanted) for one in flawed[name])
            ]

        yield from (Agreement(question, excluded) for question in ("another order", "wrong gradients"))
        if sorted(evidence.values["filled"]) != sorted(filled_by_pytorch(given)):
            yield "leaves filled by hand", ""
        elif given["again"] and not _alike(again_by_pytorch(given), _again(evidence)):
            yield "state of another call", ""
        return
    fits = tuple(name for name, seen in flawed.items() if any(same(one, found, gradients) for one in seen))
    question = "another order" if found != right else "wrong gradients"
    yield Deviation(question, fits, _difference(nodes, orders, wanted_orders, gradients, wanted), len(nodes))


def _again(evidence: Evidence) -> dict[str, torch.Tensor]:
    return {name: one for name, one in evidence.tensors.items() if name.startswith("again, ")}


def _alike(wanted: dict[str, torch.Tensor], found: dict[str, torch.Tensor]) -> bool:
    return wanted.keys() == found.keys() and all(
        # Gradients in single precision are sums in an order of one's own. What is no number is not PyTorch's here, but
        # may be that of a mistake.
        agrees(
            found[name].nan_to_num(),
            one.nan_to_num(),
            relative=1e-8 if one.dtype == torch.float64 else 1e-4,
            absolute=1e-10,
        )
        and torch.equal(found[name].isnan(), one.isnan())
        for name, one in wanted.items()
    )


def _difference(
    nodes: list[Any],
    orders: list[list[int]],
    wanted_orders: list[list[int]],
    found: dict[str, torch.Tensor],
    wanted: dict[str, torch.Tensor],
) -> str:
    for order, right in zip(orders, wanted_orders, strict=True):
        names, expected = ([in_words(nodes[one]) for one in numbers] for numbers in (order, right))
        if len(order) != len(right):
            return f"({len(order)} calls, and {len(right)} in PyTorch)"
        for place, (mine, theirs) in enumerate(zip(names, expected, strict=True), 1):
            if mine != theirs:
                return f"(call {place} is {mine}, in PyTorch {theirs})"
    for name, right_one in wanted.items():
        gradient = found.get(name)
        if gradient is None:
            return f"({name} has no gradient)"
        if (gradient.shape, gradient.dtype) != (right_one.shape, right_one.dtype):
            kinds = [f"{list(one.shape)} of {str(one.dtype).removeprefix('torch.')}" for one in (gradient, right_one)]
            return f"(the gradient of {name} is {kinds[0]}, in PyTorch {kinds[1]})"
        if not _alike({name: right_one}, {name: gradient}):
            first = next(
                at
                for at in product(*map(range, right_one.shape))
                if not _alike({name: right_one[at]}, {name: gradient[at]})
            )
            mine, theirs = (f"{one[first].item():.10g}" for one in (gradient, right_one))
            return f"(the gradient of {name} at {list(first)} is {mine}, in PyTorch {theirs})"
    return "(nodes of the same name in another order, or a gradient that nothing asked for)"
