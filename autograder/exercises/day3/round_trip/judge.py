"""What a round trip must bring back: the model's answers, for inputs that were not known when it was saved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises.day3.round_trip.visible import EARLIER, build, inputs_of

MISCONCEPTIONS = {
    "loader is no text": "`make_loader` must return a string: the source of the program that the fresh process runs.",
    "nothing saved": "After `save_model(model, example, path)` there is no file at `path`, or an empty one.",
    "earlier file is still there": (
        "There was a file at `path` before, and it, or a part of it, is still there after "
        "`save_model(model, example, path)`. Whoever saves a model again expects the new one: write over what is there."
    ),
    "too large a file": "The file is far larger than the model: save the program and its weights, and nothing else.",
    "class is missing there": (
        "The file names the class of your model instead of holding its program: pickle (`torch.save(model)`) writes "
        "where to find the class, and in the fresh process it is not there. Export the model, and save the program."
    ),
    "weights without program": (
        "The file holds weights but no program: a `state_dict` is a dictionary of tensors, and the fresh process has "
        "nothing to put them into. Export the model, and save the program."
    ),
    "code without weights": (
        "The file holds the text of a graph, which does not run by itself: names such as `torch` are free in it, and "
        "weights are not in the text at all. Save the exported program, which has both."
    ),
    "froze the batch size": (
        "The loaded program refuses batches of another size than the example's. Export with dimension 0 dynamic."
    ),
    "range with an end": (
        "The loaded program refuses batches beyond the greatest size that you gave to `Dim`. Batches of any size will "
        "be asked for: leave `max` out."
    ),
    "example of one row": (
        "`torch.export` refuses an example with one row as an example of many: size 1 is treated apart from all others "
        "(it broadcasts). Export with at least two rows: repeat the one that you have."
    ),
    "left something behind": (
        "Your loader looks for a file that is not there. Its folder holds `model.pt2` and `inputs.pt`, and nothing "
        "else: all that it needs has to be in the one file that `save_model` writes."
    ),
    "no inputs": (
        "Your loader raised an error for a list without inputs. Such a list has a list without outputs for an answer: "
        "call the program on each input, and join nothing."
    ),
    "loader failed": "Your loader raised an error in the fresh process.",
    "no outputs": (
        "The loader must write `outputs_path` with `torch.save`: a list of tensors, one for each of the inputs."
    ),
    "number of outputs": "There must be one output for each of the inputs, in the same order.",
    "answered beforehand": (
        "Whatever the input, the same answer comes back: the file holds what the model said to the example, "
        "not the model."
    ),
    "one answer for several inputs": (
        "Two of the inputs are not the same, and one answer came back for both. They have their shape in common, and "
        "hold the same numbers in another order. Run the program on each input, or compare all of it before you call "
        "one the same as another."
    ),
    "buffer lost": (
        "Parameters came along, but not `scale`: it is a buffer with `persistent=False`, which `state_dict` leaves "
        "out. An exported program holds all that the model reads."
    ),
    "buffers lost": (
        "Parameters came along, but not the buffers `mean` and `scale`: nobody trains them, and the model reads them "
        "all the same. An exported program holds all that the model reads."
    ),
    "other answers": (
        "What came back from the fresh process is not what the model computes. Did the parameters and buffers of "
        "*this* model go into the file, and does the loader hand each input over as it is?"
    ),
}

MANY = 2**17 + 1
"""More rows than the greatest sizes that learners think up for a `Dim`: 1024, 10000, 65536, 100000."""

FAILURES = (
    ("No such file or directory", "left something behind"),
    ("Can't get attribute", "class is missing there"),
    ("Weights only load failed", "class is missing there"),
    ("Unsupported global: GLOBAL __main__", "class is missing there"),
    ("size()[0] <= ", "range with an end"),
    ("to be <= ", "range with an end"),
    ("Guard failed", "froze the batch size"),
    ("to be equal to", "froze the batch size"),
    ("'dict' object is not callable", "weights without program"),
    ("'collections.OrderedDict' object", "weights without program"),
    ("'OrderedDict' object is not callable", "weights without program"),
    ("required positional argument", "code without weights"),
    ("is not defined", "code without weights"),
    ("object has no attribute", "code without weights"),
)
"""What the error of the fresh process contains, and what that means. It only chooses words."""


def hidden_cases(random: Random) -> list[Case]:
    """Other widths and other batches, far larger ones, too; one example has a single row, one path an earlier file.

    In one case inputs are alike: a loader may keep the answer for an input, but not take another one for the same.
    """
    return [
        Case(
            f"hidden {i}",
            {
                "width": random.randint(4, 9) if i == 0 else 3,
                "batch": random.randint(2, 4) if i == 0 else 1,
                "seed": random.randrange(2**31),
                "earlier file": i == 0,
            },
            kept={
                "batches": [3, 1, random.randint(5, 30), 3, random.randint(1000, 3000) if i == 0 else MANY],
                "seed": random.randrange(2**31),
                "alike": i == 0,
            },
        )
        for i in range(2)
    ] + [Case("hidden no inputs", {"width": 3, "batch": 2, "seed": 4}, kept={"batches": [], "seed": 5})]


def follow_up(case: Case, evidence: Evidence) -> Case | None:
    """File and loader, with inputs that were not there when the model was saved."""
    if evidence.values["stage"] != "saved" or keeps_earlier(evidence):
        return None
    inputs = inputs_of(case)
    parameters = {"loader": str(evidence.values["loader"]), "inputs": len(inputs)}
    tensors = {f"input{number}": value for number, value in enumerate(inputs)} | {"file": evidence.tensors["file"]}
    return Case(case.name, parameters, tensors)


def keeps_earlier(evidence: Evidence) -> bool:
    """Whether the file that travels begins or ends as the earlier one did: it was kept, or written to."""
    content = evidence.tensors["file"].numpy().tobytes()
    return content.startswith(EARLIER[:1000]) or content.endswith(EARLIER[-1000:])


STAGES = {
    "loader": "loader is no text",
    "exporting": "example of one row",
    "saving": "nothing saved",
    "too large": "too large a file",
    "outputs": "no outputs",
}


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Where the trip ended, or what is wrong with what it brought back."""
    stage, text = evidence.values["stage"], str(evidence.values.get("text", ""))
    if stage in STAGES:
        yield STAGES[stage], f"({text})" if text else ""
        return
    if stage == "saved":  # and the trip did not go on
        yield "earlier file is still there", ""
        return
    if stage == "running":
        otherwise = "loader failed" if inputs_of(case) else "no inputs"
        name = next((name for mark, name in FAILURES if mark in text), otherwise)
        yield name, f"({([line for line in text.splitlines() if line.strip()] or ['no message'])[-1][:300]})"
        return
    (model, example_input), inputs = build(case), inputs_of(case)
    if evidence.values["count"] != len(inputs):
        yield "number of outputs", f"({evidence.values['count']} for {len(inputs)} inputs)"
        return
    found = [evidence.tensors[f"output{i}"] for i in range(len(inputs))]
    with torch.no_grad():
        if all(close(one, model(x)) for one, x in zip(found, inputs, strict=True)):
            return
        example = model(example_input)
        if all(torch.equal(one, found[0]) for one in found) and close(found[0], example):
            yield "answered beforehand", ""
            return
        wanted = [model(x) for x in inputs]
        model.scale.fill_(1.0)
        if all(close(one, model(x)) for one, x in zip(found, inputs, strict=True)):
            yield "buffer lost", ""
            return
        model.mean.fill_(0.0)
        if all(close(one, model(x)) for one, x in zip(found, inputs, strict=True)):
            yield "buffers lost", ""
            return
        for (i, one), (k, other) in combinations(enumerate(found), 2):
            if torch.equal(one, other) and wanted[i].shape == wanted[k].shape and not close(wanted[i], wanted[k]):
                yield "one answer for several inputs", f"(outputs {i} and {k}, from 0)"
                return
        first = next(i for i, (one, right) in enumerate(zip(found, wanted, strict=True)) if not close(one, right))
        given, right = found[first], wanted[first]
        if given.shape != right.shape:
            yield "other answers", f"(output {first} has shape {tuple(given.shape)}; the model's: {tuple(right.shape)})"
        else:
            furthest = float((given - right).abs().max())
            yield "other answers", f"(output {first} of {len(found)} is off by {furthest:.3g})"


def close(found: object, wanted: torch.Tensor) -> bool:
    """Whether a value is the wanted one but for rounding."""
    return agrees(found, wanted, relative=1e-4, absolute=1e-5)
