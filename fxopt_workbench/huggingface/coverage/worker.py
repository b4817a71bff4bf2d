"""What one process does: build a model, capture it, compare. It sends one row and ends."""

from __future__ import annotations

import json
import math
import os
import re
import resource
import select
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from fxopt_workbench.huggingface.coverage.building import TooLargeError, build_and_plan, build_ready
from fxopt_workbench.huggingface.coverage.inputs import Plan, make_inputs
from fxopt_workbench.huggingface.coverage.methods import find_method
from fxopt_workbench.huggingface.coverage.outputs import compare, named_tensors, without_caches
from fxopt_workbench.huggingface.coverage.plans import UnknownArgumentError
from fxopt_workbench.huggingface.coverage.rows import EAGER, REFUSED, Row, judge
from fxopt_workbench.huggingface.coverage.variants import SEED, optional_masks, run_seeded, variants

_LONGEST = 300


def work(model_type: str, method: str, eager: dict[str, Any], seconds: float, connection: Connection) -> None:
    """Send the row of one type and method through `connection`.

    Args:
        model_type: of transformers.
        method: as `find_method` takes it, or `eager`.
        eager: details of the type's eager row (none yet for `eager` itself).
        seconds: after which the process ends even if nobody is left to end it.
        connection: where the row goes, as JSON. When its other end is closed, the process ends.
    """
    signal.alarm(int(seconds) + 60)
    threading.Thread(target=_end_with_the_reader, args=(connection.fileno(),), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Models and compilers talk; the terminal belongs to the progress bar.
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    torch.set_num_threads(1)
    started = time.perf_counter()
    try:
        row = run_eagerly(model_type) if method == EAGER else try_method(model_type, method, eager)
    except Exception as error:  # models and methods raise anything: that is what is measured
        row = Row(model_type, method, "error", explain(error), seconds=time.perf_counter() - started)
        if method == EAGER:
            row = replace(row, cause=cause(error))
    connection.send_bytes(json.dumps(asdict(row)).encode())


def _end_with_the_reader(descriptor: int) -> None:
    """End this process when nobody can read what it writes: the run was killed."""
    poll = select.poll()
    poll.register(descriptor, 0)  # errors are always told
    poll.poll()
    os._exit(1)


def explain(error: BaseException) -> str:
    """The kind of an error and its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:_LONGEST]


class CannotTellError(RuntimeError):
    """A model runs, but its answers could not show an error."""


def cause(error: Exception) -> str:
    """Which of `NOT_RUN` an error is while a model is built and run."""
    if isinstance(error, ImportError):
        # transformers names the package in a sentence, Python in `name`.
        named = re.search(r"requires the (\w+) library", str(error))
        return f"package: {named[1] if named else error.name}"
    if isinstance(error, TooLargeError):
        return "too large"
    if isinstance(error, CannotTellError):
        return "cannot tell"
    return "no call" if isinstance(error, (NotImplementedError, UnknownArgumentError)) else "raises"


def run_eagerly(model_type: str) -> Row:
    """Whether a type can be built and run, and on which inputs."""
    started = time.perf_counter()
    model, level, plan = build_and_plan(model_type)
    expected = {check: run_seeded(model, inputs) for check, inputs in variants(model, plan).items()}
    # What calls change about a model (its kind of attention, say) would make the answers depend on their order.
    fresh = build_ready(model_type, level, plan)
    _, repeatable, difference = compare(
        list(named_tensors(run_seeded(fresh, make_inputs(model.config, plan))).values()),
        named_tensors(expected["example"]),
    )
    if not repeatable:
        raise CannotTellError(f"made anew, or before other calls, the model gives another answer: {difference}")
    first, second = (list(named_tensors(expected[check]).values()) for check in ("example", "new_values"))
    if compare(first, {str(index): value for index, value in enumerate(second)})[1]:
        raise CannotTellError("the output hardly depends on the values of the inputs, so that an error would not show")
    reseeded = list(named_tensors(run_seeded(model, make_inputs(model.config, plan), SEED + 1)).values())
    details = {
        "class": type(model).__name__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "level": level,
        "choices": plan.choices,
        "image_tokens": plan.image_tokens,
        "inputs": {name: list(value.shape) for name, value in make_inputs(model.config, plan).items()},
        "checks": list(expected),
        "masks_left_out": optional_masks(model, plan),
        "random": not compare(reseeded, named_tensors(expected["example"]))[1],
        "finite": all(bool(value.isfinite().all()) for value in first if value.is_floating_point()),
    }
    seconds = time.perf_counter() - started
    return Row(model_type, EAGER, "captured", seconds=seconds, verdict="runs", details=details)


def try_method(model_type: str, method: str, eager: dict[str, Any]) -> Row:
    """Capture a type and compare the result with eager on every variant."""
    plan = Plan(tuple((name, index) for name, index in eager["choices"]), eager["image_tokens"])
    model = build_ready(model_type, eager["level"], plan)
    inputs = variants(model, plan)
    expected = {check: run_seeded(model, given) for check, given in inputs.items()}
    capture = find_method(method)
    victim = build_ready(model_type, eager["level"], plan)
    fresh = {name: value.clone() for name, value in inputs["example"].items()}
    started = time.perf_counter()
    try:
        with torch.no_grad():
            recording = capture(victim, fresh)
    except Exception as error:  # a method that cannot, may say so in any way
        return Row(model_type, method, "error", explain(error), seconds=time.perf_counter() - started)
    row = Row(
        model_type,
        method,
        "captured",
        graphs=len(recording.graphs),
        nodes=sum(len(graph.graph.nodes) for graph in recording.graphs),
        seconds=time.perf_counter() - started,
        details=dict(recording.details),
    )
    flatten: Callable[[Any], dict[str, torch.Tensor]] = without_caches if recording.drops_caches else named_tensors
    for check, given in inputs.items():
        try:
            output = run_seeded(recording.call, given)
        except Exception as error:  # a captured model may refuse in any way, as long as it is loud
            row.errors[check] = REFUSED
            row.details[f"{check}_refused"] = explain(error)
            continue
        largest, within, problem = compare(list(flatten(output).values()), flatten(expected[check]))
        row.errors[check], row.tolerated[check] = (largest if math.isfinite(largest) else "infinite"), within
        if problem:
            row = replace(row, reason=row.reason or f"{check}: {problem}")
    return judge(row)
