"""Graphs, gradients and programs: run on numbers that the learner's process has not seen, beside PyTorch."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from math import prod
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u1.static_graph.cases import hidden_cases
from autograder.exercises.u1.static_graph.oracle import by_pytorch
from autograder.exercises.u1.static_graph.programs import followed
from autograder.exercises.u1.static_graph.rules import FLAWS, OPERATORS, SHAPED, Node, flawed_gradients, infer, value
from autograder.exercises.u1.static_graph.visible import MOST_NODES, Step

__all__ = ["MISCONCEPTIONS", "hidden_cases", "judge"]

MOST_NUMBERS = 10_000
"""Numbers of a node that is run here; no right one has more than some dozens."""

MISCONCEPTIONS = {
    "asked PyTorch": "Your graph asks PyTorch. Work shapes and derivatives out yourself.",
    "not a node": "`nodes` is a list of tuples: operator, tuple of the inputs' numbers, tuple of the shape.",
    "not its number": "`call` adds one node at the end of `nodes` and returns its number, which counts from 0.",
    "wrong node": "A node holds the operator and the inputs as they were given to `call`.",
    "wrong shape": "A node's shape is the one that NumPy would give the result.",
    "not refused": (
        "Shapes that don't fit must be refused with `ValueError` when the operation is *described*. That's the "
        "point of knowing the graph: nothing has run yet. `matmul` and `transpose` take matrices, which have two "
        "dimensions: no vectors, and no stacks of matrices."
    ),
    "operator not refused": "An operator that isn't in the table must be refused with `ValueError`.",
    "refused node kept": "What `call` refuses must leave the graph as it was: check first, then append.",
    "refused": "You refused something that's fine.",
    "loss not refused": "`gradients` starts at a single number: a node of another shape than `()` must be refused.",
    "no gradient": (
        "`gradients` returns one node for each that was asked for, in the same order; also where the loss doesn't "
        "depend on it (`zeros` of its shape)."
    ),
    "inputs from later": "A node's inputs come before it in `nodes`: they're numbers that are there already.",
    "node does not fit": (
        "Among the nodes that `gradients` added is one whose inputs don't fit, or whose shape is wrong."
    ),
    "path by path": (
        "The graph of gradients grew far beyond the graph: you walk every *path*. Go through the nodes once, from "
        "the loss to the first, and add up what arrives at each."
    ),
    "last path only": (
        "A node that's used several times gets one gradient from each use, and they add up. You kept only the last."
    ),
    "not summed": (
        "Where `add` or `mul` stretched an operand, its gradient is summed with `sum_to` to the operand's shape."
    ),
    "factors mixed up": "The gradient of one factor is the incoming gradient times the *other* factor.",
    "sign lost": "The gradient of `neg` is the negated gradient.",
    "relu passes all": "`relu` lets a gradient through only where its input is above 0: multiply by `step`.",
    "tanh of the input": "The slope of tanh is 1 minus the square of its *result*, not of its input.",
    "gradient of another shape": "A gradient has the shape of the node that it belongs to.",
    "later call": (
        "The first gradients of this graph are right, later ones aren't. Each call starts anew: nothing of an "
        "earlier call may be left. And each step of a gradient is a node, so that it can be differentiated again."
    ),
    "wrong gradient": "A gradient isn't what PyTorch computes.",
    "not a program": '`program` returns a list of pairs `("run", node)` and `("free", node)`.',
    "runs an input": "Inputs are given by whoever runs the program: they're neither run nor freed.",
    "read before it is there": "An instruction reads a node that hasn't been run. Inputs of a node come first.",
    "computed twice": "A node is run once, however many others read it.",
    "dead code": "A program runs only what its outputs need. You ran a node that nothing needs.",
    "output missing": "A node that was asked for as an output wasn't run.",
    "freed too early": "A node was freed, and a later instruction reads it.",
    "output freed": "An output is what the program is for: never free it.",
    "never freed": (
        "A node that isn't an output stays in memory to the end. Free it after the last instruction that reads it."
    ),
    "freed late": (
        "A node was freed later than possible: free it right after the last instruction that reads it, before the "
        "next run."
    ),
    "frees what is not there": "A program frees a node that wasn't run, or that it has freed before.",
}


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind the first step that went otherwise."""
    steps, values = case.parameters["steps"], evidence.values
    if len(values["nodes"]) > MOST_NODES:
        yield "path by path", f"(more than {MOST_NODES} nodes)"
        return
    seed = zlib.crc32(case.name.encode())
    difference = _Reading(steps, values["nodes"], values["references"], by_pytorch(steps, seed), seed).difference(
        values["answers"]
    )
    if difference is not None:
        yield difference
    elif values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(values['torch_calls'])})"


class _Reading:
    """A learner's graph, run on drawn numbers beside PyTorch."""

    def __init__(
        self, steps: list[Step], nodes: list[Node | None], references: list[Any], right: list[Any], seed: int
    ) -> None:
        self.steps, self.nodes, self.references, self.right = steps, nodes, references, right
        self.generator = torch.Generator().manual_seed(seed)
        self.values: list[torch.Tensor] = []
        self.brought = 0
        self.levels: dict[int, int] = {}

    def difference(self, answers: list[dict[str, Any]]) -> tuple[str, str] | None:
        """The first step that went otherwise than it must."""
        for step, answer in zip(self.steps, answers, strict=True):
            kind, *rest = step
            found = self._fits(answer["before"], answer["after"] if kind == "gradients" else answer["before"])
            if found is None:
                found = {"call": self._call, "gradients": self._gradients, "program": self._program}[kind](rest, answer)
            if found is not None:
                return found
        return None

    def _fits(self, first: int, last: int) -> tuple[str, str] | None:
        """Looks at nodes and runs them, up to a number."""
        for number in range(len(self.values), min(max(first, last), len(self.nodes))):
            node = self.nodes[number]
            if node is None:
                return "not a node", f"(node {number})"
            operator, inputs, shape = node
            if any(size < 0 for size in shape) or prod(shape) > MOST_NUMBERS:
                return "node does not fit", f"(node {number}: {operator} of shape {tuple(shape)})"
            if any(not 0 <= one < number for one in inputs):
                return "inputs from later", f"(node {number}: {operator} of {inputs})"
            try:
                wanted = infer(
                    operator,
                    [tuple(self.values[one].shape) for one in inputs],
                    tuple(shape) if operator in SHAPED else None,
                )
            except ValueError:
                return "node does not fit", f"(node {number}: {operator} of {[self.nodes[one][2] for one in inputs]})"
            if wanted != tuple(shape):
                return "wrong shape", f"(node {number}, {operator}: found {tuple(shape)}, wanted {wanted})"
            if operator == "input":
                drawn = torch.rand(wanted, generator=self.generator, dtype=torch.float64) * 3 - 1.5
                self.values.append(drawn)
            else:
                self.values.append(value(operator, [self.values[one] for one in inputs], wanted))
        return None

    def _call(self, rest: list[Any], answer: dict[str, Any]) -> tuple[str, str] | None:
        operator, references, shape = rest
        right = self.right[self.brought]
        self.brought += 1
        shapes = [tuple(self.values[self.references[one]].shape) for one in references]
        to = f" to {tuple(shape)}" if shape is not None else ""
        told = f"({operator} of {', '.join(map(str, shapes)) or 'nothing'}{to})"
        if right is None:
            if "refused" not in answer:
                return ("not refused" if operator in OPERATORS else "operator not refused"), told
            return ("refused node kept", told) if answer["after"] != answer["before"] else None
        if "refused" in answer:
            return "refused", f"{told[:-1]}: {answer['refused']})"
        number = answer["before"]
        if answer["numbers"] != [number] or answer["after"] != number + 1:
            return "not its number", told
        node = self.nodes[number]
        if node is None:
            return "not a node", told
        if node[:2] != [operator, [self.references[one] for one in references]]:
            return "wrong node", f"{told[:-1]}: found {node[0]} of {node[1]})"
        return self._fits(0, number + 1)

    def _gradients(self, rest: list[Any], answer: dict[str, Any]) -> tuple[str, str] | None:
        loss, wanted = rest
        right = self.right[self.brought : self.brought + len(wanted)]
        self.brought += len(wanted)
        if None in right:
            return ("loss not refused", "") if "refused" not in answer else None
        if "refused" in answer:
            return "refused", f"(gradients: {answer['refused']})"
        numbers = answer["numbers"]
        if numbers is None or any(one is None or not 0 <= one < answer["after"] for one in numbers):
            return "no gradient", f"(asked for {len(wanted)})"
        if answer["after"] - answer["before"] > 12 * answer["before"] + 20:
            return "path by path", f"({answer['before']} nodes became {answer['after']})"
        for number, one, gradient in zip(numbers, wanted, right, strict=True):
            found = self.values[number]
            if found.shape != gradient.shape:
                return self._named(answer, loss, wanted, "gradient of another shape"), (
                    f"(with respect to node {self.references[one]}: found {tuple(found.shape)}, "
                    f"wanted {tuple(gradient.shape)})"
                )
            if not torch.allclose(found, gradient.detach(), rtol=1e-8, atol=1e-9):
                return self._named(answer, loss, wanted, "wrong gradient"), (
                    f"(with respect to node {self.references[one]}: found {_told(found)}, wanted {_told(gradient)})"
                )
        self.levels[answer["before"]] = answer["after"]
        return None

    def _named(self, answer: dict[str, Any], loss: int, wanted: list[int], otherwise: str) -> str:
        numbers = [self.references[one] for one in wanted]
        nodes: list[Any] = self.nodes
        for flaw in FLAWS:
            try:
                made = flawed_gradients(nodes, self.values, self.references[loss], flaw)
            except RuntimeError:
                continue
            expected = [made.get(one, torch.zeros(self.values[one].shape, dtype=torch.float64)) for one in numbers]
            found = [self.values[one] for one in answer["numbers"]]
            if all(
                one.shape == two.shape and torch.allclose(one, two) for one, two in zip(found, expected, strict=True)
            ):
                return flaw
        return "later call" if self.levels and otherwise == "wrong gradient" else otherwise

    def _program(self, rest: list[Any], answer: dict[str, Any]) -> tuple[str, str] | None:
        outputs = [self.references[one] for one in rest[0]]
        if "refused" in answer:
            return "refused", f"(a program: {answer['refused']})"
        if answer["program"] is None:
            return "not a program", ""
        nodes: list[Any] = self.nodes
        return followed(nodes[: answer["after"]], outputs, answer["program"])


def _told(tensor: torch.Tensor) -> str:
    return str([round(number, 4) for number in tensor.detach().reshape(-1).tolist()[:4]])
