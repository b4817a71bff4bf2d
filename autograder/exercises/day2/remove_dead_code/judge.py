"""What must go and what must stay: the graph that is left does the same, and has no node more than needed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes, placeholders
from autograder.exercises.day2.programs import build, inputs_of, program
from autograder.exercises.graph_comparison import COMMON, difference, operations, stale, unusable
from fxopt_core.passes import run_pass

MISCONCEPTIONS = COMMON | {
    "removed an input": (
        "You removed an input that nobody reads. Callers still pass it: the signature of the graph must stay."
    ),
    "removed a write": (
        "You removed a node whose value nobody reads, but which writes into a tensor that is read afterwards. A method "
        "whose name ends in `_` changes its tensor."
    ),
    "removed a write through a view": (
        "You removed a write because nobody reads the tensor that it writes afterwards. But that tensor is a view: it "
        "shares its memory with another one, which is read."
    ),
    "ignored flags": (
        "You removed a function that writes because it is told to: `inplace=True` writes into its input, `out=` into "
        "the tensor that it names."
    ),
    "ignored the module": (
        "You removed a call of a module that writes into its input. Which module it is says "
        "`graph_module.get_submodule(node.target)`; `effects_of` asks it."
    ),
    "removed a draw": (
        "You removed a random draw. Its value was read by nobody, but it moved the random stream: every later draw is "
        "now another number."
    ),
    "ignored training": (
        "You removed a BatchNorm that is in training: each call updates its running statistics, which the model keeps."
    ),
    "removed a check": "You removed an assertion. Nobody reads its value, but it is there to stop a run that is wrong.",
    "stopped halfway": (
        "Something dead is left. When a node goes, what only it read is dead, too: which order of the nodes finds all "
        "of them in one walk?"
    ),
    "spared modules": (
        "A call of a module is left that nobody reads and that has no effect: in evaluation mode neither Linear nor "
        "Dropout nor BatchNorm does anything but compute."
    ),
    "something else": "The graph that is left computes something else than the original.",
}

BY_TRAP = {
    "writes": "removed a write",
    "writes through views": "removed a write through a view",
    "flags": "ignored flags",
    "modules that write": "ignored the module",
    "draws": "removed a draw",
    "training": "ignored training",
}

PURE = ("torch.exp({})", "{}.tanh()", "torch.neg({})", "F.gelu({})", "self.layer({})", "{} * 2", "torch.abs({})")


def hidden_cases(random: Random) -> list[Case]:
    """Dead chains of random length around each kind of effect, in random places."""

    def dead(name: str, start: str) -> list[str]:
        lines, value = [], start
        for i in range(random.randint(2, 5)):
            lines.append(f"{name}{i} = {random.choice(PURE).format(value)}")
            value = f"{name}{i}"
        return lines

    templates = {
        "chain": ["a = torch.relu(x)", *dead("d", "a"), *dead("e", "x"), "return a + 1"],
        "pure modules": [*dead("d", "x"), "unused = self.layer(x)", "return torch.abs(x)"],
        "writes": ["a = torch.exp(x)", *dead("d", "a"), "a.mul_(3.0)", *dead("e", "a"), "return a"],
        "writes through views": ["a = torch.exp(x)", "v = a.t()", "v[1].fill_(5.0)", *dead("d", "a"), "return a - 1"],
        "flags": ["a = torch.neg(x)", *dead("d", "a"), "F.silu(a, inplace=True)", "return a.exp()"],
        "draws": [*dead("d", "x"), "unused = torch.randn_like(x)", "return x + torch.rand_like(x)"],
    }
    state = {"layer": "nn.Linear(4, 4)"}
    return [
        program(f"hidden {trap}", "\n".join(lines), state=state, trap=trap, seed=random.randrange(2**31))
        for trap, lines in templates.items()
    ]


def least(case: Case) -> int:
    """How many operations must be left."""
    graph_module = build(case)
    run_pass("dead_code", graph_module)
    return operations(graph_module)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What went that must stay, then what stayed that must go."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = build(case), decode(evidence.graphs["graph"])
    if _inputs(original) != _inputs(theirs):
        yield "removed an input", ""
        return
    trap = case.parameters["trap"]
    different = next(filter(None, (difference(original, theirs, inputs_of(case, seed)) for seed in (11, 12))), None)
    if different:
        yield BY_TRAP.get(trap, "something else"), f"(what differs: {different})"
        return
    if any(node.target is torch._assert for node in all_nodes(original)) and not any(
        node.target is torch._assert for node in all_nodes(theirs)
    ):
        yield "removed a check", ""
        return
    left, wanted = operations(theirs), least(case)
    if left > wanted:
        modules = trap == "pure modules" and any(node.op == "call_module" for node in all_nodes(theirs))
        yield ("spared modules" if modules else "stopped halfway"), f"({left} operations left, {wanted} are needed)"
        return
    if problem := stale(evidence, theirs):
        yield problem


def _inputs(graph_module: fx.GraphModule) -> list[str]:
    return [str(node.target) for node in placeholders(graph_module)]
