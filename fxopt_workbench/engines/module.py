"""An optimised model that an engine runs, and its graph wherever the engine would not be right."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.autograd import forward_ad
from torch.utils._pytree import tree_leaves

from fxopt_core.capture.module import CapturedModule
from fxopt_core.graphs.fused_operators import is_plain
from fxopt_workbench.engines.engine import Engine
from fxopt_workbench.engines.program import Program, Run

Held = tuple[dict[str, Any], str, Any, int | None]
"""Where a weight or a module is held, under which name, which it was, and how often it had been written."""


class EngineModule(nn.Module):
    """Called like the optimised model. Parameters, buffers, training flags and checkpoints are that model's.

    The engine answers a call that it was measured and compared for. The optimised graph answers where the engine
    might be wrong: for other sizes than it takes, when gradients are recorded and it has none, when a weight has been
    written or exchanged and it has baked the old one in, and inside of a transform or another compiler. A write
    through `.data` is one that torch does not count, and nobody sees.

    Attributes:
        optimized: the optimised model.
        engine: what runs it.
        fallbacks: how many calls the optimised graph answered, by reason.
    """

    optimized: CapturedModule
    engine: Engine
    fallbacks: dict[str, int]
    _program: Program
    _run: Run

    def __init__(self, optimized: CapturedModule, engine: Engine, program: Program, run: Run) -> None:
        super().__init__()
        held = vars(self)
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            held[name] = vars(optimized)[name]
        held["optimized"] = optimized
        held["training"] = optimized.training
        self.engine, self.fallbacks = engine, {}
        held["_program"], held["_run"] = program, run
        self._shapes = [tensor.shape for tensor in program.example]
        self._weights: list[Held] = [] if engine.live_weights else list(_weights(optimized))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the model for this call.

        Raises:
            RefusedInputError: the graph does not hold for this call.
        """
        if torch.compiler.is_compiling():
            return self.optimized(*args, **kwargs)
        given, named = self.optimized._accepted(args, kwargs)
        leaves = tree_leaves((given, named))
        tensors = [leaves[number] for number in self._program.taken]
        reason = self._objection(tensors)
        if reason:
            if reason not in self.fallbacks:
                warnings.warn(
                    f"{self.engine.name} does not answer this call ({reason}); the optimised graph does.", stacklevel=3
                )
            self.fallbacks[reason] = self.fallbacks.get(reason, 0) + 1
            return self.optimized(*args, **kwargs)
        return self._program.result(leaves, self._run(*tensors))

    def _objection(self, tensors: list[torch.Tensor]) -> str:
        """Why the engine must not answer a call; empty where it may."""
        engine = self.engine
        if not all(map(is_plain, tensors)):
            return "an input is of a subclass of tensor"
        if not (engine.other_sizes and self._program.sizes_open) and any(
            one.shape != shape for one, shape in zip(tensors, self._shapes, strict=True)
        ):
            return "it was made for other sizes"
        if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
            return "a transform of torch.func needs to see the operators"
        if torch.is_grad_enabled() and not engine.gradients:
            recorded = any(one.requires_grad for one in tensors) or any(
                isinstance(one, torch.Tensor) and one.requires_grad for _, _, one, _ in self._weights
            )
            if recorded:
                return "it gives no gradients, and this call records them: call it under torch.no_grad()"
        for holder, name, weight, version in self._weights:
            if holder.get(name) is not weight or _version(weight) != version:
                return "a weight has changed since"
        return ""

    def train(self, mode: bool = True) -> EngineModule:
        """Nothing where this is the captured mode already.

        Raises:
            RuntimeError: the graph was captured in the other mode.
        """
        self.optimized.train(mode)
        return self

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> EngineModule:
        self.optimized._apply(fn, recurse)
        return self

    def _save_to_state_dict(self, *rest: Any) -> None:
        self.optimized._save_to_state_dict(*rest)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        self.optimized._load_from_state_dict(state_dict, prefix, *rest)

    def __deepcopy__(self, memo: dict[int, Any]) -> CapturedModule:
        """The optimised model: what an engine compiled cannot be copied."""
        copied: CapturedModule = copy.deepcopy(self.optimized, memo)
        memo[id(self)] = copied
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        """The optimised model; the decision is saved by its own `save`."""
        return _itself, (self.optimized,)


class FlatEngine(nn.Module):
    """Called like a graph that Dynamo captured, with weights and sizes among its inputs; gives no gradients.

    Dynamo has checked dtypes, devices and memory layouts. The graph itself answers where a weight or a size is another
    one than the engine was made for.

    Attributes:
        graph: the graph.
        engine: what runs it.
        fallbacks: how many calls the graph answered.
    """

    def __init__(
        self, graph: fx.GraphModule, engine: Engine, program: Program, run: Run, example: Sequence[Any]
    ) -> None:
        super().__init__()
        held = vars(self)
        held["graph"], held["engine"], held["fallbacks"] = graph, engine, 0
        held["_program"], held["_run"] = program, run
        held["_shapes"] = [tensor.shape for tensor in program.example]
        held["_fixed"] = [
            (number, value, _version(value) if isinstance(value, torch.Tensor) else None)
            for number, value in enumerate(example)
            if number not in program.taken
        ]

    def forward(self, *values: Any) -> Any:
        """What the graph gives for these values."""
        held = vars(self)
        program: Program = held["_program"]
        tensors = [values[number] for number in program.taken]
        fits = all(_is_still(values[number], value, version) for number, value, version in held["_fixed"]) and all(
            is_plain(one) and one.shape == shape for one, shape in zip(tensors, held["_shapes"], strict=True)
        )
        recorded = torch.is_grad_enabled() and any(
            isinstance(one, torch.Tensor) and one.requires_grad for one in values
        )
        if fits and not recorded:
            return program.result(values, held["_run"](*tensors))
        held["fallbacks"] += 1
        return held["graph"].forward(*values)


def _is_still(found: Any, value: Any, version: int | None) -> bool:
    """Whether a weight is the one that it was, or a number the same."""
    if isinstance(value, torch.Tensor):
        return found is value and _version(found) == version
    return bool(found == value)


def _itself(module: CapturedModule) -> CapturedModule:
    return module


def _weights(module: nn.Module) -> Iterator[Held]:
    """Every tensor that a module holds, parameters, buffers and plain attributes, and the modules that hold them."""
    for part in module.modules():
        for name, held in part._modules.items():
            yield part._modules, name, held, None
        for holder in (part._parameters, part._buffers, vars(part)):
            for name, value in holder.items():
                if isinstance(value, torch.Tensor):
                    yield holder, name, value, _version(value)


def _version(held: Any) -> int | None:
    """How often a tensor has been written; `None` for a module, and for one of inference mode, which does not count."""
    return None if not isinstance(held, torch.Tensor) or held.is_inference() else held._version
