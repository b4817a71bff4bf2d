"""What is right: what GPT-2 computes for every batch, from at most two graphs of which one serves sizes never seen."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import decode, run
from autograder.exercises.composed import once_a_case
from autograder.exercises.day4.dynamic_gpt2.visible import INPUTS, KEPT_GRAPHS, batches, build, draw_batch
from autograder.exercises.day4.models import POSITIONS

MOST_GRAPHS = KEPT_GRAPHS
OTHER_SIZES = ((6, 12, "left"), (7, 17, "right"), (9, 4, "none"))
"""Rows and length of the judge's own texts, which occur in no case, and where they are filled."""

APART = [[True, False], [False, True]]
"""Each of two functions runs on its own backend."""

MISCONCEPTIONS = {
    "size refused": (
        "Dynamo refused a size, because what you declared for it cannot hold. Its message says why. The two inputs "
        "meet inside the model, so their sizes vary together: declare both dimensions of both inputs, without an end, "
        "or let Dynamo find out."
    ),
    "no states": "Your function must return one tensor, the states of shape (rows, length, width): the first output.",
    "backend not used": (
        "Nothing reached the backend that `compile_gpt2` was given: either nothing is compiled, or by another backend."
    ),
    "lost the mask": (
        "Without the mask the filling counts as text. Hand `attention_mask` to the compiled model: there is no error "
        "when it is missing, only other numbers."
    ),
    "results changed": "For some batch your function does not return what the model returns at the tokens that count.",
    "filling left out": (
        "Where a text is filled up, your function does not return what the model returns there. Hand the texts over as "
        "they come, filling included, and return the first thing that the model returns just as it is."
    ),
    "every size anew": (
        "Each pair of rows and length is compiled on its own: nothing in your graphs is a symbol. Allow Dynamo to use "
        "symbols (`dynamic=True`), and compile once, not once for each size."
    ),
    "only the rows vary": (
        "Your first graph has a symbol for the rows and a number for the length: the next length compiles again. "
        "Declare dimension 1, too."
    ),
    "only the length varies": (
        "Your first graph has a symbol for the length and a number for the rows: the next batch compiles again. "
        "Declare dimension 0, too."
    ),
    "waited for the change": (
        "Dynamo makes a symbol of a size only after it has seen it change: rows cost you one compilation more, and "
        "length another. Say beforehand that both vary."
    ),
    "row by row": (
        "You hand the texts over one by one: the graph is made for one row, and everything that a batch gains is lost."
    ),
    "filled up": (
        "You fill every batch up to one size: your graph is made for that size only. It computes filling most of the "
        "time, and fails on the first batch that is larger."
    ),
    "forgets what was compiled": (
        "Once `compile_gpt2` had been called for another model, your first function compiled again. Leave "
        "`torch._dynamo.reset()` to those who call: it throws away what others compiled."
    ),
    "runs another model": (
        "Once `compile_gpt2` had been called for another model, your first function ran that one. Two functions must "
        "not share what each of them compiled: keep it in a name inside `compile_gpt2`, not in a global one."
    ),
    "one model for two backends": (
        "The same model was compiled for another backend later, and then one of the two functions ran on the other's "
        "backend. `model.compile(…)` changes the model itself: leave it as it is, and keep what "
        "`torch.compile(model, …)` returns."
    ),
    "changed the inputs": (
        "Your function writes into the tensors of whoever calls it: afterwards they hold other numbers. Leave both "
        "inputs as they are."
    ),
    "other arguments": (
        "The compiled part does not get the two inputs as they are. Compile what takes `input_ids` and "
        "`attention_mask`, so that the whole model is in the graph."
    ),
    "past the compiled model": (
        "In one of the calls no graph ran: your function handed the texts to the plain model. Every call must go "
        "through the compiled model, a text that comes alone, too."
    ),
    "graph serves one size": (
        "Your graphs are right for the sizes that they were made for, and for no others. Let Dynamo use symbols for "
        "both sizes."
    ),
}


def hidden_cases(random: Random) -> list[Case]:
    """Other sizes, up to many texts and to the longest that the model reads; in one case texts come alone.

    Texts are filled on either side or not at all; some batches hold no text without filling. In one case
    the model returns more than the states.
    """
    rows, lengths = random.sample(range(2, 6), k=2), random.sample(range(7, 16), k=2)
    many = random.randint(17, 30)
    several = [[rows[0], lengths[0]], [rows[1], lengths[0]], [many, POSITIONS], [rows[0], 3 if rows[0] != 3 else 4]]
    alone = [[1, lengths[0]], [rows[1], lengths[0]], [1, POSITIONS], [rows[1], lengths[1]], [rows[0], lengths[1]]]
    everywhere = random.sample(["left everywhere", "right everywhere"], k=2)
    more: tuple[dict[str, Any], ...] = (
        {"sizes": several, "fillings": ["left", "right", "none", "right"], "another backend": True},
        {
            "sizes": alone,
            "fillings": ["left", "right", *everywhere, "none"],
            "called": "the mask by name",
            "averages": True,
        },
    )
    return [Case(f"hidden {number}", given | {"seed": random.randrange(2**31)}) for number, given in enumerate(more)]


@once_a_case
def model_of(case: Case) -> nn.Module:
    """The judge's own model of the case."""
    return build(case)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The one thing that is wrong, the most telling first."""
    values = evidence.values
    if values["refused"]:
        yield "size refused", f"({values['refused'].splitlines()[0][:200]})"
        return
    if values["compilations"] == 0:
        yield "backend not used", ""
        return
    model = model_of(case)
    looks = (outputs_of, inputs_of, filling_of, graphs_of)
    finding = next((found for look in looks for found in look(case, evidence, model)), None)
    if finding:
        yield finding


def outputs_of(case: Case, evidence: Evidence, model: nn.Module) -> Iterator[tuple[str, str]]:
    """What the learner's function returned, against what the model returns."""
    called = len(evidence.values["ran"])
    if not called:
        yield "no states", ""
        return
    for number, (tokens, mask) in enumerate(batches(case)[:called]):
        found = evidence.tensors.get(f"output{number}")
        if found is None:
            yield "no states", ""
            return
        where = f"(rows {len(tokens)}, length {tokens.shape[1]})"
        if not same(found, states(model, tokens, mask), mask):
            blind = same(found, states(model, tokens, torch.ones_like(mask)), mask)
            yield ("lost the mask" if blind else "results changed"), where
            return


def filling_of(case: Case, evidence: Evidence, model: nn.Module) -> Iterator[tuple[str, str]]:
    """What it returned at the filling: whoever fills up more, or writes into the tokens, changes that, too."""
    called = len(evidence.values["ran"])
    for number, (tokens, mask) in enumerate(batches(case)[:called]):
        if not same(evidence.tensors.get(f"output{number}"), states(model, tokens, mask), torch.ones_like(mask)):
            yield "filling left out", f"(rows {len(tokens)}, length {tokens.shape[1]})"
            return


def states(model: nn.Module, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """What the model gives, of shape (rows, length, width)."""
    with torch.no_grad():
        wanted: torch.Tensor = model(tokens, attention_mask=mask)[0]
    return wanted


def same(found: Any, wanted: torch.Tensor, mask: torch.Tensor) -> bool:
    """Whether both agree at the tokens that count in the mask."""
    if not isinstance(found, torch.Tensor) or found.shape != wanted.shape:
        return False
    return agrees(found[mask.bool()], wanted[mask.bool()], relative=1e-4, absolute=1e-5)


def inputs_of(case: Case, evidence: Evidence, model: nn.Module) -> Iterator[tuple[str, str]]:
    """What became of the two inputs: in each call a graph gets them, and the caller has them afterwards as before."""
    values = evidence.values
    if 0 in values["ran"]:
        rows, length = case.parameters["sizes"][values["ran"].index(0)]
        yield "past the compiled model", f"(no graph ran for {rows} x {length})"
        return
    if not set(INPUTS) <= {role for role, _ in values["arguments"][0]}:
        yield why_not_the_inputs(case, evidence), ""
        return
    if not all(values["kept"]):
        rows, length = case.parameters["sizes"][values["kept"].index(False)]
        yield "changed the inputs", f"(rows {rows}, length {length})"


def graphs_of(case: Case, evidence: Evidence, model: nn.Module) -> Iterator[tuple[str, str]]:
    """How many graphs there are, and whether one of them serves sizes that the learner's code never saw."""
    values = evidence.values
    if values["compilations"] > MOST_GRAPHS:
        calls = ", ".join(f"{rows} x {length}" for rows, length in case.parameters["sizes"])
        yield why_so_many(values), f"({values['compilations']} graphs for {calls})"
        return
    if len(values["ran"]) < len(case.parameters["sizes"]):
        yield "no states", ""
        return
    if not any(serves(evidence, name, model) for name in evidence.graphs):
        yield "graph serves one size", ""
        return
    tokens, mask = batches(case)[0]
    if not values["ran again"] or not same(evidence.tensors.get("last"), states(model, tokens, mask), mask):
        yield "runs another model", ""
        return
    if case.parameters.get("another backend") and values["reached"] != APART:
        yield "one model for two backends", ""
        return
    if again := values.get("compiled again"):
        yield "forgets what was compiled", f"({again} more graphs)"


def why_not_the_inputs(case: Case, evidence: Evidence) -> str:
    """What the first graph is given in the place of the two inputs; its batch has several rows."""
    rows, length = case.parameters["sizes"][0]
    sizes = evidence.values["sizes"][0]
    if len(sizes) != 2 or rows == 1:
        return "other arguments"
    if sizes[0] == "1":
        return "row by row"
    frozen = "any" not in sizes and int(sizes[0]) >= rows and int(sizes[1]) >= length
    return "filled up" if frozen else "other arguments"


def why_so_many(values: dict[str, Any]) -> str:
    """The habit that leads to more than two graphs."""
    sizes = [one for one in values["sizes"] if len(one) == 2]
    if not any("any" in one for one in sizes):
        return "every size anew"
    first = next((one for one in sizes if one[0] != "1"), ["", ""])
    if (first[0] == "any") != (first[1] == "any"):
        return "only the rows vary" if first[0] == "any" else "only the length varies"
    return "waited for the change"


def serves(evidence: Evidence, name: str, model: nn.Module) -> bool:
    """Whether a graph computes what the model does for texts of the judge's own sizes."""
    graph = decode(evidence.graphs[name])
    roles = evidence.values["arguments"][int(name)]
    for seed, (rows, length, filling) in enumerate(OTHER_SIZES):
        tokens, mask = draw_batch(rows, length, seed, filling)
        try:
            arguments = [
                argument(role, value, evidence.tensors.get(f"graph{name}.{place}"), tokens, mask)
                for place, (role, value) in enumerate(roles)
            ]
            found = first_tensor(graph, arguments)
        except Exception:  # a graph from outside may raise anything; it does not serve then
            return False
        if not same(found, states(model, tokens, mask), mask):
            return False
    return True


def argument(role: str, value: Any, tensor: torch.Tensor | None, tokens: torch.Tensor, mask: torch.Tensor) -> Any:
    """What a graph's argument is for these texts."""
    if role in INPUTS:
        given = tokens if role == INPUTS[0] else mask
        return given.to(getattr(torch, value))
    if role in ("rows", "length"):
        return tokens.shape[0] if role == "rows" else tokens.shape[1]
    return value if tensor is None else tensor


def first_tensor(graph: fx.GraphModule, arguments: list[Any]) -> Any:
    """The states among the graph's outputs: the only tensor of three dimensions."""
    outputs = run(graph, arguments)
    return next(
        (value for value in outputs if isinstance(value, torch.Tensor) and value.dim() == 3),
        None,
    )
