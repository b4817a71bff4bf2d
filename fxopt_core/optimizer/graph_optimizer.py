"""`GraphOptimizer`: capture, passes, verification, report."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves, tree_map_only

from fxopt_core.benchmark import BenchmarkReport, benchmark
from fxopt_core.benchmark.running import without_gradients
from fxopt_core.capture import Attempt, Captured
from fxopt_core.capture import capture as capture_model
from fxopt_core.capture.dimensions import DynamicSpec, named_leaves, read_dynamic
from fxopt_core.capture.methods.dynamo import CountedOperators, differentiated_once
from fxopt_core.capture.methods.exporting import LIFTED
from fxopt_core.capture.module import (
    CapturedModule,
    hide_new_tensors,
    tensors_of,
    tensors_read,
    trying_small_sizes,
)
from fxopt_core.capture.new_values import GUESSED, ONE, SIZES, new_values
from fxopt_core.capture.questions import refuse_other_answers
from fxopt_core.capture.running import ISOLATED
from fxopt_core.devices import choose_device
from fxopt_core.display import Displayable
from fxopt_core.optimizer.dynamo_graph import optimize_graph
from fxopt_core.optimizer.engines import Engine, Request, find_engine
from fxopt_core.optimizer.pipeline import run_passes
from fxopt_core.optimizer.report import OptimizationReport, OptimizedGraph
from fxopt_core.optimizer.verified_passes import Built, Verified, run_verified_passes
from fxopt_core.passes import OptimizationPass, choose_passes
from fxopt_core.verification import EXACT, Equivalence, Gradients, Tolerance, check_equivalence, rounding, same_state
from fxopt_core.verification.isolation import (
    ExampleInputs,
    Model,
    as_module,
    private_copy,
    require_model,
    split_example_inputs,
)
from fxopt_core.verification.modes import unwound
from fxopt_core.verification.state import with_shared_tensors

ROUNDS_OTHERWISE = (
    "The captured graph takes another path through the same mathematics than the model does in one of its modes "
    "(nn.MultiheadAttention has several), and rounds otherwise."
)


@dataclass(frozen=True)
class OptimizationResult(Displayable):
    """What `GraphOptimizer.optimize` gives.

    Attributes:
        module: called like the model; it has weights of its own.
        report: everything that was done and left alone.
    """

    module: torch.nn.Module
    report: OptimizationReport


class GraphOptimizer:
    """Optimises a model whose every observable behaviour stays.

    The model that is passed is never changed: it is captured from a copy, and the result has weights of its own.

        optimizer = GraphOptimizer(model, (x,))
        result = optimizer.optimize("inference")
        print(result.report)
        y = result.module(x)

    Args:
        model: an `nn.Module`, or a function of tensors.
        example_inputs: a tuple or list of positional arguments, or a dictionary of keyword arguments.
        device: where to optimise and run; the copy and the inputs are moved there. By default, where the model is.
        capture: a method of `fxopt_core.capture.capture`: `export`, `dynamo`, `symbolic_trace`, or `auto`, which goes
            on until a graph does everything that the model does, gradients and writes included. Where only Dynamo
            can follow, the model is cut into graphs at every call, and each of them goes through the passes.
        dynamic: which sizes may vary, as `capture` takes it; by default none, and other sizes are refused.

    Attributes:
        captured: what was captured, before any pass.
        attempts: the ways of capture that were tried, and what spoke against each.

    Raises:
        CaptureError: no method can capture the model; the message says what was tried and why each failed.
        ValueError: there is no such method, the inputs are on another device than the model, or `dynamic` does not fit
            the example inputs.
        TypeError: `example_inputs` is neither positional nor keyword arguments, `dynamic` is of another form, or the
            model is none.
    """

    def __init__(
        self,
        model: Model,
        example_inputs: ExampleInputs,
        device: torch.device | str | None = None,
        capture: str = "auto",
        *,
        dynamic: DynamicSpec = None,
    ) -> None:
        require_model(model)
        args, kwargs = split_example_inputs(example_inputs)
        if device is not None:
            place = choose_device(str(device))
            model, args, kwargs = private_copy(model, args, kwargs)
            model = model.to(place) if isinstance(model, torch.nn.Module) else model
            args, kwargs = tree_map_only(torch.Tensor, lambda tensor: _moved(tensor, place), (args, kwargs))
        _require_one_device(model, args, kwargs)
        # Comparisons run it, and a copy keeps even what cannot be seen (an iterator) from being the caller's.
        self.model = with_shared_tensors(model)
        self.example_inputs: ExampleInputs = kwargs or args
        self._compare = partial(check_equivalence, self.model, inputs=self.example_inputs)
        self._dynamic = read_dynamic(dynamic, named_leaves(model, args, kwargs))
        self.captured = capture_model(model, self.example_inputs, capture, dynamic=dynamic, objection=self._objection)
        self.attempts = self.captured.attempts or (Attempt(self.captured.method),)
        self._module = self.captured.module
        self._more_inputs = self._other_sizes(args, kwargs)
        self._before: CapturedModule | None = None
        self._verified: Verified | None = None

    def _objection(self, captured: Captured) -> str:
        """Why this capture does not do everything that the model does; empty where it does."""
        module: Any = captured.module
        if module is None and captured.method != "dynamo":
            return "its graph is not called as the model is called, so that it cannot stand for the model."
        if any(guard.kind == "VALUE" for guard in captured.guards):
            return "its graph holds only for the values that Python read from this example."
        if module is not None and module.lost_gradients:
            return f"its graph has none of the model's own backward pass: {module.lost_gradients}."
        graphs: list[OptimizedGraph] = []
        self._answers = captured.runner.answers if captured.runner is not None else {}
        function = module or self._through_dynamo(graphs)
        try:
            for tolerance in (EXACT, self._own_rounding()):
                self._rounding = tolerance
                equivalence = self._compare(function, tolerance=tolerance)
                if equivalence:
                    break
        except (ValueError, TypeError) as error:
            return f"it cannot be compared with the model: {error}"
        if not equivalence:
            return f"what it captured does something else than the model: {equivalence}"
        if module is None and not graphs and self._operations():
            return "Dynamo left the whole call to Python, so there is no graph to optimise."
        return ""

    def _caveats(self) -> tuple[str, ...]:
        own = () if self._rounding.exact else (ROUNDS_OTHERWISE,)
        return (*(one for one in self.captured.caveats if one != LIFTED), *own)

    def _own_rounding(self) -> Tolerance:
        """How far off another path through the same mathematics may be: fused attention, three products for one."""
        state = (*self.model.parameters(), *self.model.buffers()) if isinstance(self.model, torch.nn.Module) else ()
        tensors = [one for one in (*tree_leaves(self.example_inputs), *state) if isinstance(one, torch.Tensor)]
        return max((rounding(one.dtype) for one in tensors), default=EXACT, key=lambda one: one.relative)

    def _operations(self) -> int:
        """How many operators a call of the model runs."""
        args, kwargs = split_example_inputs(self.example_inputs)
        model, args, kwargs = private_copy(self.model, args, kwargs)
        with same_state(), CountedOperators() as counted:
            model(*args, **kwargs)
        return counted.operators

    def _other_sizes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[ExampleInputs]:
        """The inputs of other sizes on which the captured graph has agreed with the model."""
        agreed = {one.on for one in self.captured.agreements if one.agrees}
        others: list[ExampleInputs] = []
        for on, other_args, other_kwargs in new_values(self.model, args, kwargs, self._dynamic):
            given = other_kwargs or other_args
            if on not in agreed or not on.startswith((SIZES, GUESSED, ONE)):
                continue
            if on.startswith(ONE):
                if self._module is None:
                    continue
                # More is compared here than at capture, such as strides. What differs in these is refused.
                with trying_small_sizes(self._module, other_args, other_kwargs) as small:
                    found = self._compare(self._module, inputs=given, tolerance=self._rounding, adversarial=False)
                    small.allowed = found.equal
                if not small.allowed:
                    continue
            others.append(given)
        return others

    def optimize(
        self,
        passes: str | Sequence[str | OptimizationPass] = "inference",
        *,
        verify: bool = True,
        engine: str | Engine | None = None,
        **options: Any,
    ) -> OptimizationResult:
        """Run passes to a fixpoint, and check that everything observable stays.

        When the comparison with the model fails, the one rewrite that is to blame is found by bisection, denied, and
        the passes run again without it.

        Args:
            passes: a preset (`inference`, `training`, `exact`), the name of a pass, or a list of names and passes.
            verify: whether to compare with the model, on the example inputs and on adversarial ones.
            engine: what is to run the optimised graph: `auto` for the fastest that is installed and right, the name of
                one, or an `Engine`; by default PyTorch, operator by operator. The preset `training` and a model in
                training mode ask for one that gives gradients. `report.engine` says what was tried and taken.
            options: of the named passes, such as `memory_budget` of `recomputation`.

        Raises:
            ValueError: there is no such preset, pass or engine (the message offers the nearest names), none of the
                passes takes an option, or one cannot do what an option asks of it.
            VerificationError: the captured graph differs from the model even without a rewrite.
        """
        chosen = choose_passes(passes, **options)
        runs_on = None if engine is None else find_engine(engine)
        self._before = None if self._module is None else self._as_the_model_is_now(self._module)
        verified = self._verified = run_verified_passes(
            chosen,
            self._build,
            self._check if verify else None,
            own_rounding=self._rounding,
            at_fault="the graph without any rewrite already differs from the model, so not the passes but the capture "
            f"by {self.captured.method} is at fault; capture by another method, or optimise a part of the model.",
        )
        report = OptimizationReport(
            self.captured.method,
            self.attempts,
            tuple(dict.fromkeys([*self._caveats(), *differentiated_once(one.before for one in verified.built.graphs)])),
            tuple(pass_.name for pass_ in chosen),
            verified.built.graphs[: verified.built.first],
            verified.equivalence,
            verified.denied,
        )
        if runs_on is not None:
            gradients = passes == "training" or getattr(self.model, "training", False)
            request = Request(verified.built.call, self.example_inputs, verified.tolerance, gradients, self._compare)
            taken = runs_on(request)
            self._verified = replace(verified, built=replace(verified.built, call=taken.module))
            report.engine = taken.decision
        return OptimizationResult(self._last().built.call, report)

    def _as_the_model_is_now(self, captured: CapturedModule) -> CapturedModule:
        """The captured graph over weights of its own, with what the model has learnt and counted since the capture."""
        module: CapturedModule = private_copy(captured)[0]
        both = module, as_module(self.model)
        held, now = ({name: operator.attrgetter(name)(one) for name in tensors_of(one)} for one in both)
        with torch.no_grad():
            for name in held.keys() & now.keys():
                kinds = {(one.shape, one.dtype, one.device) for one in (held[name], now[name])}
                # Of another dtype or without values: what the comparison with the model then says is true.
                if len(kinds) == 1 and not now[name].is_meta and not torch.equal(held[name], now[name]):
                    held[name].copy_(now[name])
        return module

    def _build(self, passes: Sequence[OptimizationPass], denied: frozenset[str], most: float) -> Built:
        """The model after the first `most` rewrites that are not denied."""
        if self._before is not None:
            result = run_passes(self._before, passes, denied=denied, most=most)
            assert isinstance(result.graph_module, CapturedModule)
            known = tensors_of(self._before)
            result.graph_module.note_baked(known, tensors_read(self._before))
            hide_new_tensors(result.graph_module, known)
            return Built(result.graph_module, [OptimizedGraph(self._before, result)])
        graphs: list[OptimizedGraph] = []
        module = self._through_dynamo(graphs, passes, denied, most)
        args, kwargs = split_example_inputs(self.example_inputs)
        _, args, kwargs = private_copy(None, args, kwargs)
        with same_state(module):
            module(*args, **kwargs)
        return Built(module, graphs, first=len(graphs), numbered=True)

    def _through_dynamo(
        self,
        graphs: list[OptimizedGraph],
        passes: Sequence[OptimizationPass] = (),
        denied: frozenset[str] = frozenset(),
        most: float = math.inf,
    ) -> torch.nn.Module:
        """A copy of the model that Dynamo compiles; each graph that it captures goes through the passes."""

        def backend(graph_module: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
            prefix = f"graph {len(graphs)}: "
            own = frozenset(key.removeprefix(prefix) for key in denied if key.startswith(prefix))
            left = most - sum(len(graph.result.rewrites) for graph in graphs)
            graphs.append(optimize_graph(graph_module, passes, own, left))
            # Of a call that raises, Dynamo unwinds only some of the modes and transforms of torch.func.
            return unwound()(graphs[-1].result.graph_module.forward)

        copied = as_module(private_copy(self.model)[0])

        # Dynamo reads no code of torch.nn unless code of others calls it, as this does.
        def call(*args: Any, **kwargs: Any) -> Any:
            return copied._call_impl(*args, **kwargs)

        compiled = torch.compile(call, backend=backend, dynamic=self._dynamic.choice, **ISOLATED)

        def checked(*args: Any, **kwargs: Any) -> Any:
            refuse_other_answers(self._answers, named_leaves(copied, args, kwargs))
            return compiled(*args, **kwargs)

        # As `Module.compile` does: parameters keep their names, and training mode can be switched.
        copied._compiled_call_impl = checked if any(self._answers.values()) else compiled
        return copied

    def _check(
        self,
        module: torch.nn.Module,
        tolerance: Tolerance,
        gradients: Gradients,
        more_inputs: Sequence[ExampleInputs] = (),
    ) -> Equivalence:
        more = [*self._more_inputs, *more_inputs]
        return self._compare(module, tolerance=tolerance, gradients=gradients, more_inputs=more)

    def verify(self, more_inputs: Sequence[ExampleInputs] = (), *, tolerance: Tolerance | None = None) -> Equivalence:
        """Compare the last result of `optimize` with the model, also on inputs of the caller's.

        Raises:
            RuntimeError: `optimize` has not been called.
        """
        last = self._last()
        allowed = last.tolerance if tolerance is None else tolerance
        return self._check(last.built.call, allowed, last.gradients, more_inputs)

    def benchmark(self, *, warmup: int = 5, repeats: int = 30) -> BenchmarkReport:
        """Time the model beside the last result of `optimize`, interleaved, without gradients.

        Raises:
            RuntimeError: `optimize` has not been called.
        """
        model, args, kwargs = private_copy(self.model, *split_example_inputs(self.example_inputs))
        functions = {"model": model, "optimized": self._last().built.call}
        return benchmark(
            {name: without_gradients(function, args, kwargs) for name, function in functions.items()},
            warmup=warmup,
            repeats=repeats,
        )

    def _last(self) -> Verified:
        if self._verified is None:
            raise RuntimeError("nothing has been optimised yet; call optimize() first.")
        return self._verified


def _moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    return tensor.detach().to(device).requires_grad_(tensor.requires_grad)


def _require_one_device(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not isinstance(model, torch.nn.Module):
        return
    own = {tensor.device for tensor in (*model.parameters(), *model.buffers())}
    given = {tensor.device for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, torch.Tensor)}
    if len(own) == 1 and given and given != own:
        raise ValueError(
            f"example_inputs are on {', '.join(map(str, given))}, and the model is on {next(iter(own))}; expected one "
            "device. Move the inputs, or pass device=... to move copies of both."
        )
