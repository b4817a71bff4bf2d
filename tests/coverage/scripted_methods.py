"""Methods of capture that behave in one known way. Worker processes find them by name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

from fxopt_workbench.huggingface.coverage import Recording

EXAMPLE_LENGTH = 12


def _graph():
    return torch.fx.symbolic_trace(torch.nn.ReLU())


def honest(model, inputs):
    """Right everywhere."""
    return Recording(model, [_graph()])


def bakes_values(model, inputs):
    """Whatever comes, it gives the answer to the example."""
    answer = model(**inputs)
    return Recording(lambda **given: answer, [_graph()])


def loses_an_output(model, inputs):
    return Recording(lambda **given: model(**given)[:1], [_graph()])


def bakes_branch(model, inputs):
    """Takes the branch that the example took: a mask of ones is no mask."""
    kept = {name: inputs[name] for name in inputs if name != "attention_mask"}
    assert bool(inputs["attention_mask"].all())
    return Recording(lambda **given: model(**{name: given[name] for name in kept}), [_graph()])


def refuses(model, inputs):
    """Right for the sizes of the example; raises at others."""

    def call(**given):
        if any(given[name].shape != inputs[name].shape for name in inputs):
            raise ValueError("sizes of the example only")
        return model(**given)

    return Recording(call, [_graph()])


def two_graphs(model, inputs):
    return Recording(model, [_graph(), _graph()])


def refuses_values(model, inputs):
    """Right for the example and nothing else."""

    def call(**given):
        if not torch.equal(given["input_ids"], inputs["input_ids"]):
            raise ValueError("values of the example only")
        return model(**given)

    return Recording(call, [_graph()])


def raises(model, inputs):
    raise RuntimeError("cannot capture this\nand much more")


def hangs(model, inputs):
    time.sleep(3600)


def eats(model, inputs):
    kept = []
    while True:
        kept.append(torch.ones(2**24))
        time.sleep(0.01)


def dies(model, inputs):
    os._exit(7)


def notes_its_turn(model, inputs):
    """Writes a line into the file that the environment names; the first time on GPT-2 it hangs."""
    path = Path(os.environ["FXOPT_TEST_TURNS"])
    name = type(model).__name__
    hanging = name == "GPT2Model" and not (path.exists() and name in path.read_text())
    with path.open("a") as file:
        file.write(f"{name} {os.getpid()}\n")
    if hanging:
        time.sleep(3600)
    return Recording(model, [_graph()])
