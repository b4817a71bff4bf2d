"""What an honest export is: right for every shape that it promises, and promising every shape that is right."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import ENCODED_VALUE, decode, run_flat
from autograder.exchange.graph_form.nodes import placeholders
from autograder.exercises.day3.dynamic_export.visible import Reader, build, draw_inputs

MOST_ROWS = 64
"""The batch size up to which the task asks for."""

LONG = (4100, 5000)
"""How many positions a long table has, at least and at most: whoever tries each length still has time."""

DTYPES = {"tokens": "int64", "mask": "float32"}
"""What the model takes."""

MISCONCEPTIONS = {
    "no exported program": "Return what `torch.export.export` returns, an `ExportedProgram`.",
    "unreadable": "The graph of your program cannot be read back.",
    "example of one row": (
        "`torch.export` refuses: an example with one row is no good as an example of many, since size 1 is treated "
        "apart from all others (it broadcasts). Export with an example of at least two rows: repeat the one you have."
    ),
    "range refused": (
        "`torch.export` refuses the dimensions that you gave: two sizes have one name but differ, what you export with "
        "lies outside a range, or the model cannot keep what a range promises. Its message names them."
    ),
    "lost the mask": (
        "Your program takes no mask, or takes one and does not look at it. The mask is an input like the tokens: what "
        "is no input when the model is exported is a constant for ever."
    ),
    "other names": (
        "Your program takes two inputs, and calls them something else. It must take `tokens` and `mask`, by these "
        "names, as the model does: the names come from the `forward` that you export."
    ),
    "exported in training mode": (
        "Two runs of your program on the same input differ: dropout is part of the graph. The model came in training "
        "mode, as a whole or in parts; `model.eval()` puts all of it into evaluation mode. Do so before you export."
    ),
    "froze the batch size": (
        "Your program serves only the batch size of the example: dimension 0 of tokens and mask has to be dynamic."
    ),
    "froze the length": (
        "Your program serves only the length of the example: dimension 1 of tokens and mask has to be dynamic."
    ),
    "batch tied to length": (
        "In your program batch and length have the same name, so they must be equal. Give each a name of its own."
    ),
    "promises lengths that fail": (
        "Your program promises lengths for which the model has no position in its table (`model.positions`): there it "
        "raises an error, or worse. The greatest length is in the model that you were given."
    ),
    "promises lengths without an answer": (
        "Your program promises lengths at which nothing is left after the prompt (`model.skip`): the result is `nan`, "
        "silently. The least length is in the model that you were given."
    ),
    "left length one out": (
        "Your program promises lengths from 2 up, but this model skips nothing (`model.skip` is 0) and has an answer "
        "at length 1, too. Size 1 is trouble for the *example* only: export with a longer one, and begin the range "
        "where the model begins, at `model.skip + 1`."
    ),
    "range too narrow": (
        "The model is right for more sizes than your program promises: batches from 1 to 64, and every length from the "
        "least to the greatest that it can serve."
    ),
    "stops below the table's end": (
        "Your program promises less than the longest text that this model can read: its table (`model.positions`) has "
        "thousands of positions. No number that you think up is the greatest length of every model; ask the model that "
        "you were given."
    ),
    "other dtypes": (
        "Your program takes `tokens` or `mask` in another dtype than the model does. What you export with decides: "
        "leave the dtypes of the example as they are."
    ),
    "computes something else": "For some inputs your program does not compute what the model computes.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Other tables, prompts and examples; one model has no prompt, so that a single token is enough for it.

    Another serves three lengths, and its example is as long as can be: only in this range can it be exported. The last
    one reads longer texts than the greatest lengths that learners think up: 512, 1024, 4096.
    """
    cases = []
    for i in range(3):
        skip, positions = random.randint(1, 5) if i < 2 else 0, random.randint(14, 60)
        parameters = {
            "positions": positions,
            "skip": skip,
            "batch": random.randint(2, 4) if i != 1 else 1,
            "length": random.randint(skip + 3, positions - 3),
            "seed": random.randrange(2**31),
            "only parts train": i == 0,
        }
        if i == 1:
            parameters |= {"positions": 14, "skip": 11, "length": 14}
        cases.append(Case(f"hidden {i}", parameters))
    long = {"positions": random.randint(*LONG), "skip": random.randint(1, 5), "batch": random.randint(2, 4)}
    long |= {"length": random.randint(10, 40), "seed": random.randrange(2**31)}
    return [*cases, Case("hidden a long table", long)]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The one thing that is wrong with the program, the most telling first."""
    values = evidence.values
    if values["kind"] == "refused":
        text = str(values["text"])
        name = "example of one row" if "constant (1)" in text else "range refused"
        yield name, f"({text.splitlines()[0][:200]})"
        return
    if values["kind"] == "unreadable":
        yield "unreadable", f"({values['text']})"
        return
    if values["kind"] != "program":
        yield "no exported program", f"(found a {values['kind']})"
        return
    graph = decode(evidence.graphs["graph"])
    model = build(case)[0].eval()
    shapes = {node.name: node.meta.get(ENCODED_VALUE, {}).get("shape") for node in placeholders(graph)}
    if set(shapes) != {"tokens", "mask"}:
        yield ("other names" if len(shapes) == 2 else "lost the mask"), f"(inputs: {', '.join(shapes) or 'none'})"
        return
    dtypes = {node.name: node.meta.get(ENCODED_VALUE, {}).get("dtype") for node in placeholders(graph)}
    if dtypes != DTYPES:
        yield "other dtypes", f"(yours: {dtypes})"
        return
    finding = next(computed(case, model, graph), None) or next(promised(case, shapes, values["ranges"]), None)
    if finding:
        yield finding


def computed(case: Case, model: Reader, graph: fx.GraphModule) -> Iterator[tuple[str, str]]:
    """What running the graph on shapes of the judge's own shows."""
    given = case.parameters
    least, most, rows, length = given["skip"] + 1, given["positions"], given["batch"], given["length"]
    # An example of one row has to be repeated, so that a frozen program may be frozen at two.
    other_rows = 11
    if not (right(graph, model, rows, length) or right(graph, model, rows + 1, length)):
        inputs = sample(model, rows, length)
        try:
            runs = [run_flat(graph, inputs, seed)[0] for seed in range(2)]
            blind = torch.equal(runs[0], run_flat(graph, {**inputs, "mask": torch.ones_like(inputs["mask"])})[0])
            outputs = len(run_flat(graph, inputs))
        except Exception as error:
            yield "computes something else", f"(it raises {str(error).splitlines()[0][:200]})"
            return
        if not torch.equal(runs[0], runs[1]):
            yield "exported in training mode", ""
        elif outputs > 1:
            yield "computes something else", f"(it returns {outputs} tensors, and the model one)"
        else:
            yield ("lost the mask" if blind else "computes something else"), ""
        return
    if not (right(graph, model, rows, length - 1) or right(graph, model, rows + 1, length - 1)):
        yield "froze the length", f"(right for {length}, not for {length - 1})"
        return
    if not right(graph, model, other_rows, length):
        yield "froze the batch size", f"(right for {rows}, not for {other_rows})"
        return
    for batch, size in ((1, least), (1, most), (MOST_ROWS, least), (MOST_ROWS, most), (5, most)):
        if not right(graph, model, batch, size):
            yield "computes something else", f"(at batch {batch}, length {size})"
            return


def sample(model: Reader, rows: int, length: int) -> dict[str, torch.Tensor]:
    """Inputs of these sizes, always the same ones. Where there are rows enough, no token of the last one counts."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1000 * rows + length)
        tokens, mask = draw_inputs(rows, length, model.skip)
    if rows == MOST_ROWS:
        mask[-1] = 0.0  # for this row the model gives nan
    return {"tokens": tokens, "mask": mask}


def right(graph: fx.GraphModule, model: Reader, rows: int, length: int) -> bool:
    """Whether the graph gives what the model gives, twice, for inputs of these sizes."""
    inputs = sample(model, rows, length)
    with torch.no_grad():
        wanted = model(**inputs)
        try:
            found = [run_flat(graph, inputs, seed) for seed in range(2)]
        except Exception:  # a graph from outside may raise anything; it is not right then
            return False
    return all(len(run) == 1 and close(run[0], wanted) for run in found)


def close(found: Any, wanted: torch.Tensor) -> bool:
    """Whether a value is the wanted one but for rounding; `nan` equals `nan`."""
    if isinstance(found, torch.Tensor) and torch.equal(found.isnan(), wanted.isnan()):
        found, wanted = found.nan_to_num(), wanted.nan_to_num()
    return agrees(found, wanted, relative=1e-4, absolute=1e-5)


def promised(case: Case, shapes: dict[str, Any], ranges: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What the ranges say, against what the model can do."""
    given = case.parameters
    least, most = given["skip"] + 1, given["positions"]
    for index, name in ((1, "froze the length"), (0, "froze the batch size")):
        if any(type(shape[index]) is int for shape in shapes.values()):
            yield name, f"(shapes: {shapes})"
            return
    if any(shape[0] == shape[1] for shape in shapes.values()):
        yield "batch tied to length", ""
        return
    if shapes["tokens"] != shapes["mask"]:
        yield "computes something else", f"(tokens and mask have different sizes: {shapes})"
        return
    (rows_from, rows_to), (from_, to) = (ranges.get(str(symbol), [None, None]) for symbol in shapes["tokens"])
    said = f"(batch {rows_from} to {rows_to or 'any'}, length {from_} to {to or 'any'}; yours)"
    if to is None or to > most:
        yield "promises lengths that fail", said
    elif from_ is None or from_ < least:
        yield "promises lengths without an answer", said
    elif from_ == 2 and least == 1:
        yield "left length one out", said
    elif from_ == least and to < most and most >= LONG[0]:
        yield "stops below the table's end", said
    elif from_ > least or to < most or (rows_from or 0) > 1 or (rows_to is not None and rows_to < MOST_ROWS):
        yield "range too narrow", said
