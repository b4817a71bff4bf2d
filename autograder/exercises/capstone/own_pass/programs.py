"""The graphs that a pass is tried on: traps, random programs, and models; each is made again from its name."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case
from autograder.exchange.graph_form import EncodedGraph, GraphFormatError, decode, encode
from autograder.exercises.capstone import chosen, few
from autograder.exercises.capstone.own_pass.models import FAMILIES
from autograder.exercises.capstone.own_pass.places import after_the_course, travels
from autograder.exercises.capstone.own_pass.planting import Planted, made_inputs
from autograder.traps.random_programs import random_program
from autograder.traps.table import TRAPS
from autograder.traps.trap import Trap, exported, traced, with_examples

VISIBLE_SEED = "visible"
RANDOM_PROGRAMS = 60
"""How many random programs come from one seed."""

LEVELS: dict[str, Callable[[torch.nn.Module, tuple[Any, ...]], fx.GraphModule]] = {
    "torch": lambda model, inputs: with_examples(traced(model), *inputs),
    "ATen": lambda model, inputs: exported(model, *inputs),
}
"""How a model becomes a graph: functions and modules of torch as they are written, or core ATen."""

Program = tuple[fx.GraphModule, tuple[Any, ...]]
"""A graph module and the positional arguments to call it with."""


def trap_cases() -> list[Case]:
    """Every trap whose graph has a JSON form: not those with hooks or with functions that nobody knows."""
    cases = []
    for trap in chosen(TRAPS):
        try:
            case = _case(f"trap, {trap.name}", {"trap": trap.name}, trap.program()[0])
            decode(encoded(case))
        except GraphFormatError:
            continue
        cases.append(case)
    return cases


def random_cases(seed: str) -> list[Case]:
    """Random programs, of views, writes, draws and shared modules."""
    keys = chosen([f"{seed}/{number}" for number in range(RANDOM_PROGRAMS)])
    return [_case(f"random program {key}", {"random": key}, random_of(key)[0]) for key in keys]


def model_cases(seed: str) -> list[Case]:
    """One model of each family, as it is, and after the template and the presets. None is left out of a quick look.

    At which level a family comes is drawn; both levels come.
    """
    cases = []
    families = random.Random(f"{seed}/families").sample(list(FAMILIES), len(FAMILIES))
    for number, family in enumerate(few(families)):
        key = [family, list(LEVELS)[number % len(LEVELS)], seed]
        graph_module = model_of(*key)[0]
        cases.append(_case(f"{family}, {key[1]}", {"model": key}, graph_module))
        later = after_the_course(graph_module)
        if travels(later):
            cases.append(_case(f"{family}, {key[1]}, after the presets", {"model": key, "later": True}, later))
    return cases


def planted_case(case: Case, planted: Planted) -> Case:
    """A plant in the model of a case, as a case."""
    given: dict[str, Any] = {name: case.parameters[name] for name in ("model", "later") if name in case.parameters}
    made: tuple[Any, ...] = ()
    if planted.inputs:
        made = made_inputs(planted.inputs)
        given |= {"inputs": list(planted.inputs), "strides": [list(value.stride()) for value in made]}
    given |= {"planted": planted.kind, "about": planted.about, "signature": planted.signature}
    program = with_examples(planted.graph_module, *(made or inputs_of(case)))
    return _case(f"plant, {case.name}: {planted.about}", given, program)


def _case(name: str, parameters: dict[str, Any], graph_module: fx.GraphModule) -> Case:
    graph = encode(graph_module)
    return Case(name, {**parameters, "graph": graph.document}, graph.tensors)


def encoded(case: Case) -> EncodedGraph:
    """The case's graph in its JSON form."""
    return EncodedGraph(case.parameters["graph"], case.tensors)


def is_the_program(case: Case, sent: EncodedGraph) -> bool:
    """Whether a graph that came back is the case's own, node by node and bit by bit: then it does what that does."""
    own = encoded(case)
    # As JSON: in Python 1 is True and 0.0 is -0.0.
    documents = (json.dumps(graph.document, sort_keys=True) for graph in (own, sent))
    return (
        len({*documents}) == 1
        and own.tensors.keys() == sent.tensors.keys()
        and all(_same_bits(tensor, sent.tensors[name]) for name, tensor in own.tensors.items())
    )


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    alike = one.dtype == other.dtype and one.shape == other.shape
    return alike and torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


@cache
def trap_of(name: str) -> Trap:
    """The trap of this name."""
    return next(trap for trap in TRAPS if trap.name == name)


def random_of(key: str) -> Program:
    """The random program of this key. Its inputs ask for no gradients; the oracle asks for them itself."""
    graph_module, inputs = random_program(random.Random(key))
    return graph_module, tuple(tensor.detach() for tensor in inputs)


def model_of(family: str, level: str, seed: str) -> Program:
    """The model of this family from this seed, as a graph."""
    with torch.random.fork_rng(devices=[]):
        model, inputs = _drawn(family, seed)
        return LEVELS[level](model.eval(), inputs), inputs


def _drawn(family: str, seed: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """The model itself and its inputs. Seeds torch: the caller puts its random state back."""
    source = random.Random(f"{seed}/{family}")
    torch.manual_seed(source.getrandbits(32))
    return FAMILIES[family](source)


def inputs_of(case: Case) -> tuple[Any, ...]:
    """The inputs of the case's program, which overlap as its author wanted."""
    given = case.parameters
    if "trap" in given:
        inputs = trap_of(given["trap"]).program()[1]
    elif "inputs" in given:
        inputs = made_inputs(given["inputs"])
    elif "random" in given:
        inputs = random_of(given["random"])[1]
    else:
        family, _, seed = given["model"]
        with torch.random.fork_rng(devices=[]):
            inputs = _drawn(family, seed)[1]  # to capture the model again would take a second
    return inputs
