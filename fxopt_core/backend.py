"""`torch.compile(model, backend="fxopt")`: the passes inside Dynamo, then Inductor, AOTAutograd or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import torch
from torch import fx

from fxopt_core.optimizer.dynamo_graph import compare_graphs, optimize_graph
from fxopt_core.optimizer.engines import Engine, Request, find_engine
from fxopt_core.optimizer.pipeline import PipelineResult
from fxopt_core.optimizer.verified_passes import Built, run_verified_passes
from fxopt_core.passes import OptimizationPass, Refusal, choose_passes
from fxopt_core.suggestions import did_you_mean
from fxopt_core.verification import Equivalence, Gradients, Tolerance

Compiled = Callable[..., Any]

THEN = ("inductor", "aot_eager", "eager")
"""What may take over after the passes; any other backend of `torch.compile` may be named too."""


@dataclass(frozen=True)
class BackendOptions:
    """What `torch.compile(model, backend="fxopt", options={…})` takes.

    Attributes:
        passes: a preset, the name of a pass, or a list of names and passes. By default `training` where gradients are
            recorded, else `inference`.
        then: the backend that gets the optimised graph.
        then_options: its own options, those of Inductor for example: `{"epilogue_fusion": False}`.
        mode: of Inductor, such as `max-autotune`. (`torch.compile` itself takes a mode or options, not both.)
        verify: whether to compare each graph with what Dynamo captured, at the values of its first call and at
            adversarial ones. A rewrite that is to blame for a difference is not made. Takes several calls of the graph.
        report: is called with the `PipelineResult` of each graph that Dynamo captures.
        memory_budget: of the pass `recomputation`: a fraction of the training step's peak.
        engine: in place of `then`: `auto` for the fastest engine that is installed and right at the values of the
            first call, the name of one, or an `Engine`. Each graph that Dynamo captures gets its own.
    """

    passes: str | Sequence[str | OptimizationPass] | None = None
    then: str = "inductor"
    then_options: Mapping[str, Any] = field(default_factory=dict)
    mode: str | None = None
    verify: bool = False
    report: Callable[[PipelineResult], object] | None = None
    memory_budget: float | None = None
    engine: str | Engine | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> BackendOptions:
        """Options by name.

        Raises:
            ValueError: there is no such option; the message offers the nearest names.
            TypeError: the value of an option is of another type than it takes.
        """
        names = [one.name for one in fields(cls)]
        for name in given:
            if name not in names:
                raise ValueError(
                    f"there is no option {name!r}.{did_you_mean(name, names)} The options are {', '.join(names)}."
                )
        options = cls(**given)
        if not isinstance(options.then, str):
            raise TypeError(f"then is {options.then!r}; expected the name of a backend, such as {', '.join(THEN)}.")
        if not isinstance(options.then_options, Mapping):
            raise TypeError(f"then_options is {options.then_options!r}; expected a dictionary of options by name.")
        if not isinstance(options.verify, bool):
            raise TypeError(f"verify is {options.verify!r}; expected True or False.")
        if options.report is not None and not callable(options.report):
            raise TypeError(f"report is {options.report!r}; expected a function of one PipelineResult.")
        return options


def fxopt_backend(
    graph_module: fx.GraphModule,
    example_inputs: list[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Compiled:
    """A Dynamo backend: run passes on a captured graph, and hand the result on to a compiler.

    Registered as `fxopt` through the entry-point group `torch_dynamo_backends`, so no import is needed:

        torch.compile(model, backend="fxopt")
        torch.compile(model, backend="fxopt", options={"passes": "exact", "then": "eager"})

    Dynamo's graph is first written in ATen operators (`fxopt_core.capture.lowering`), so that the passes find here
    what they find in `GraphOptimizer`. Where that cannot be done they run on the graph as Dynamo wrote it, and the
    report says why, among the refusals of `lowering`. A graph that no pass changes is handed on untouched.

    **Weights are never baked in.** Parameters and buffers are inputs of the graph, and stay inputs. A batch
    normalisation in evaluation is folded by operators that scale the layer's weights *at each call*. So whatever
    happens to the weights later (an optimiser's step, `load_state_dict`, `.data`, another parameter) counts from the
    next call on, and gradients reach the weights that the model has. Inductor's own `freezing` decides otherwise: it
    computes folded weights once, needs gradients to be off, and doesn't notice when the weights change. Computed once
    here is only what depends on no input at all, such as `torch.arange(4) * 2`. A rewrite that needs to know the
    values of a parameter or buffer (that a mask holds no infinities, say) is not made.

    Args:
        graph_module: what Dynamo captured; it is not changed.
        example_inputs: the inputs of the first call, weights among them.
        mode: of `torch.compile`; the same as the option of this name.
        options: see `BackendOptions`.

    Raises:
        ValueError: there is no such option, mode, backend, preset or pass; or no pass takes the memory budget.
        TypeError: an option has a value of the wrong type.
        VerificationError: the graph in ATen operators differs from Dynamo's, before any pass.
    """
    chosen = BackendOptions.parse({**({"mode": mode} if mode else {}), **(options or {})})
    compile_ = _next_backend(chosen)
    preset = "training" if _records_gradients(example_inputs) else "inference"
    budget = {} if chosen.memory_budget is None else {"memory_budget": chosen.memory_budget}
    passes = choose_passes(preset if chosen.passes is None else chosen.passes, **budget)

    def build(acting: Sequence[OptimizationPass], denied: frozenset[str], most: float) -> Built:
        graph = optimize_graph(graph_module, acting, denied, most)
        return Built(graph.result.graph_module, [graph])

    def compare(changed: fx.GraphModule, tolerance: Tolerance, gradients: Gradients) -> Equivalence:
        # Weights are inputs of the graph, so all gradients stay, whatever passes promise of those that are folded.
        return compare_graphs(graph_module, changed, example_inputs, tolerance)

    at_fault = "the graph of ATen operators differs from the one that Dynamo captured, before any pass:"
    verified = run_verified_passes(passes, build, compare if chosen.verify else None, at_fault=at_fault)
    result = verified.built.graphs[0].result
    result.refusals["verification"] = [Refusal(key, "it changes what is computed") for key in verified.denied]
    if chosen.report is not None:
        chosen.report(result)
    changed = result.graph_module if result.rewrites else graph_module
    if chosen.engine is not None:
        again = partial(compare_graphs, graph_module, values=example_inputs)
        request = Request(changed, example_inputs, verified.tolerance, preset == "training", again)
        return find_engine(chosen.engine)(request).module
    if result.rewrites:
        _name_sources(changed)
    return compile_(changed, example_inputs)


def _records_gradients(example_inputs: list[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs
    )


def _name_sources(graph_module: fx.GraphModule) -> None:
    """Tell AOTAutograd where the tensors come from that passes made: it asks for every one that a graph holds."""
    from torch._dynamo.source import ConstantSource

    sources = dict(getattr(graph_module, "_param_name_to_source", None) or {})
    for name, _ in (*graph_module.named_parameters(), *graph_module.named_buffers()):
        sources.setdefault(name, ConstantSource(name))
    graph_module._param_name_to_source = sources  # type: ignore[assignment]


def _next_backend(options: BackendOptions) -> Callable[[fx.GraphModule, list[Any]], Compiled]:
    """What gets the graph after the passes."""
    then, given = options.then, dict(options.then_options)
    if then == "inductor":
        # What `torch.compile` itself makes of a mode and options; both are checked here.
        return torch._TorchCompileInductorWrapper(options.mode, given, None)
    if options.mode not in (None, "default"):
        raise ValueError(
            f"mode is {options.mode!r}, which is one of Inductor's, and then is {then!r}; leave out one of them."
        )
    if then == "eager" and not given:
        return lambda graph_module, example_inputs: graph_module.forward
    known = {*torch._dynamo.list_backends(exclude_tags=()), *THEN} - {"fxopt"}
    if then not in known:
        raise ValueError(f"there is no backend {then!r} to hand on to.{did_you_mean(then, known)} {_listed(known)}")
    backend = torch._dynamo.lookup_backend(then)
    return lambda graph_module, example_inputs: backend(
        graph_module, example_inputs, **({"options": given} if given else {})
    )


def _listed(known: Iterable[str]) -> str:
    return f"Expected one of {', '.join(sorted(known))}."
