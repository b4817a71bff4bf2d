"""`benchmark`: what compiling costs and what it brings, candidate by candidate."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fxopt_core import devices
from fxopt_core.benchmark.accuracy import largest_error
from fxopt_core.benchmark.measuring import Clock, break_even_calls, measure_interleaved, time_once
from fxopt_core.benchmark.memory import peak_bytes
from fxopt_core.benchmark.report import BenchmarkReport, Candidate

EAGER = "eager"
"""The backend name that stands for not compiling at all."""

Function = Callable[[], object]


def benchmark(
    functions: Mapping[str, Function] | torch.nn.Module | Callable[..., object],
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    backends: Sequence[str] = (EAGER, "inductor"),
    device: torch.device | str | None = None,
    warmup: int = 5,
    repeats: int = 30,
    fresh_cache: bool = False,
    clock: Clock = time.perf_counter,
    synchronize: Callable[[], None] | None = None,
) -> BenchmarkReport:
    """Compare ways to run a model, or any functions.

    It goes through these phases:

    1. *First calls.* For each candidate Dynamo is reset and one call is timed: compilation and one execution.
       What Dynamo captured meanwhile is counted. Code that a backend imports is loaded before; kernels
       that an earlier process left in Inductor's cache on disk are found again, unless `fresh_cache`. With it
       Inductor's first call also builds what it keeps for the whole machine (a precompiled C++ header).
    2. *Steady state.* Dynamo is reset once more and every candidate is compiled again, untimed. After the
       warm-up the candidates are timed in turn (A B C A B C ...); the device is waited for before each
       reading of the clock.
    3. *Memory*, then *error*: one more call each. The error is meaningless for a model that draws random
       numbers or changes its own state.

    Args:
        functions: names to functions without arguments, the first being what the others are compared with;
            or a model (or function of tensors) together with `inputs`.
        inputs: positional inputs as a sequence, or keyword inputs as a mapping; only with a model. The
            model runs as it is: on the device and in the mode (`train` or `eval`) it has, without gradients.
        backends: with a model, backends of `torch.compile`; `"eager"` stands for the model uncompiled.
        device: what to wait for and whose memory to count; by default the device of the first tensor among
            the inputs and parameters, and for functions that of `devices.choose_device()`.
        warmup: untimed calls of each candidate in the steady state.
        repeats: timed calls of each candidate.
        fresh_cache: give each first call an empty cache on disk. Slower, and the honest figure for a new machine.
        clock: returns seconds; replaced in tests.
        synchronize: waits for the device; by default `devices.synchronize(device)`.

    Raises:
        TypeError: `inputs` missing for a model, or given with functions.
        ValueError: no candidate, an unknown backend, a candidate whose output has other shapes than the
            first one's, or `warmup` or `repeats` out of range.
    """
    candidates, tensors = _candidates(functions, inputs, backends)
    measured = next(iter(candidates))
    place = _place(tensors, device)
    wait = synchronize if synchronize is not None else lambda: devices.synchronize(place)
    first_calls: dict[str, tuple[float, int, int]] = {}
    for name, function in candidates.items():
        torch._dynamo.reset()
        with _cache(fresh_cache):
            before = _captured()
            seconds = time_once(function, clock=clock, synchronize=wait)
            after = _captured()
        first_calls[name] = (seconds, after[0] - before[0], after[1] - before[1])
    torch._dynamo.reset()
    for function in candidates.values():
        function()
    compiled_before = _captured()
    steady = measure_interleaved(candidates, clock=clock, synchronize=wait, warmup=warmup, repeats=repeats)
    notes = _notes(_captured()[0] - compiled_before[0])
    peaks = {name: peak_bytes(function, place) for name, function in candidates.items()}
    errors = _errors(candidates)
    found = []
    for name, (seconds, graphs, operations) in first_calls.items():
        pays = break_even_calls(seconds, steady[measured].median, steady[name].median) if name != measured else None
        one = Candidate(name, seconds, steady[name], peaks[name], graphs, operations, errors[name], pays)
        found.append(one)
    return BenchmarkReport(
        candidates=tuple(found),
        device=str(place),
        device_name=devices.device_name(place),
        torch_version=torch.__version__,
        threads=torch.get_num_threads(),
        warmup=warmup,
        repeats=repeats,
        fresh_cache=fresh_cache,
        notes=notes,
    )


def _candidates(
    functions: Mapping[str, Function] | torch.nn.Module | Callable[..., object],
    inputs: Sequence[Any] | Mapping[str, Any] | None,
    backends: Sequence[str],
) -> tuple[dict[str, Function], list[torch.Tensor]]:
    """Functions without arguments by name, and the tensors that tell where a model lives."""
    if isinstance(functions, Mapping):
        if inputs is not None:
            raise TypeError("benchmark() takes inputs with a model only; functions in a mapping take no arguments")
        if not functions:
            raise ValueError("benchmark() got no function to measure")
        return dict(functions), []
    if inputs is None:
        raise TypeError("benchmark() needs inputs for a model: a tuple of positional or a dict of keyword inputs")
    if not backends:
        raise ValueError("benchmark() got no backend to measure")
    arguments = () if isinstance(inputs, Mapping) else tuple(inputs)
    keywords = dict(inputs) if isinstance(inputs, Mapping) else {}
    tensors = [value for value in (*arguments, *keywords.values()) if isinstance(value, torch.Tensor)]
    if isinstance(functions, torch.nn.Module):
        tensors += functions.parameters()
    return {backend: _call(functions, backend, arguments, keywords) for backend in dict.fromkeys(backends)}, tensors


def _call(
    model: torch.nn.Module | Callable[..., object], backend: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Function:
    run: Callable[..., object] = model
    if backend != EAGER:
        try:
            # Loads the backend's code, which is no compile time.
            torch._dynamo.lookup_backend(backend)
        except torch._dynamo.exc.InvalidBackend as error:
            known = ", ".join([EAGER, *torch._dynamo.list_backends()])
            raise ValueError(f"unknown backend {backend!r}; this machine has {known}") from error
        run = torch.compile(model, backend=backend)
    return without_gradients(run, arguments, keywords)


def without_gradients(run: Callable[..., object], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Function:
    """A function without arguments that makes this call and records no gradients."""

    def call() -> object:
        with torch.no_grad():
            return run(*arguments, **keywords)

    return call


def _place(tensors: list[torch.Tensor], device: torch.device | str | None) -> torch.device:
    if device is not None:
        return devices.choose_device(str(device))
    return tensors[0].device if tensors else devices.choose_device()


def _cache(fresh: bool) -> contextlib.AbstractContextManager[None]:
    if not fresh:
        return contextlib.nullcontext()
    from torch._inductor.utils import fresh_inductor_cache

    return fresh_inductor_cache()


def _captured() -> tuple[int, int]:
    """Graphs, and calls in them, that Dynamo has captured in this process so far."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"], counters["stats"]["calls_captured"]


def _notes(recompiled: int) -> tuple[str, ...]:
    if not recompiled:
        return ()
    return (
        f"Dynamo captured {recompiled} more graphs during the steady state: some timed calls include a "
        "compilation. See TORCH_LOGS=recompiles.",
    )


def _errors(candidates: Mapping[str, Function]) -> dict[str, float | None]:
    names = list(candidates)
    reference = candidates[names[0]]()
    errors: dict[str, float | None] = {names[0]: largest_error(reference, reference)}
    for name in names[1:]:
        try:
            errors[name] = largest_error(candidates[name](), reference)
        except ValueError as error:
            raise ValueError(f"{name!r} computes something else than {names[0]!r}: {error}") from error
    return errors
