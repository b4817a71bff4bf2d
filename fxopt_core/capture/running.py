"""Calling captured graphs as the model is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._C._functorch import TransformType
from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters

from fxopt_core.capture.captured_graph import CapturedGraph
from fxopt_core.capture.dimensions import Dynamic, mark_dimensions, named_leaves
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.questions import Answers, refuse_other_answers
from fxopt_core.verification.comparison import same_value
from fxopt_core.verification.isolation import Model


class Runner:
    """Something called like the model, with state of its own that calls may change.

    Attributes:
        module: holds the state; called, unless `call` says how.
        gradients: whether calls record gradients where the caller's would. They do not where the graph's are wrong.
        answers: what the example's tensors answer to the model's questions, where nothing else checks them.
    """

    answers: Answers

    def __init__(self, module: Model, call: Callable[..., Any] | None = None) -> None:
        """`call` is given the module and the arguments."""
        self.module = module
        self._call = partial(call, module) if call else module
        self.gradients, self.answers = True, {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run. What is called checks the arguments itself.

        Raises:
            CaptureError: a transform of `torch.func` or forward-mode differentiation asks for gradients that the graph
                does not have. Without a word it would take them for zeros.
        """
        if not self.gradients and _differentiating():
            raise CaptureError(
                "call",
                "a derivative is asked of a graph whose gradients are not the model's.",
                "differentiate the model itself, or capture it by another method.",
            )
        with nullcontext() if self.gradients else torch.no_grad():
            return self._call(*args, **kwargs)


def _differentiating() -> bool:
    levels = {one.key() for one in retrieve_all_functorch_interpreters()}
    return bool(levels & {TransformType.Grad, TransformType.Jvp}) or torch.autograd.forward_ad._current_level >= 0


class Replay:
    """A backend that runs graphs already captured: where Dynamo comes to another graph, it refuses.

    Dynamo traces a call anew and checks its guards as ever; only what it hands over is compared with what was
    captured. So a call runs the captured graphs with Dynamo's own guards, or fails.
    """

    def __init__(self, partitions: tuple[CapturedGraph, ...], method: str) -> None:
        self.known = [(_text(one.graph_module), _constants(one.graph_module), one) for one in partitions]
        self.method = method
        self.runs = 0

    def __call__(self, graph_module: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        """The captured graph of the same text.

        Raises:
            CaptureError: there is none, so these inputs took another path than the example.
        """
        text, constants = _text(graph_module), _constants(graph_module)
        for known_text, known_constants, partition in self.known:
            if text == known_text and _same(known_constants, constants):
                return partial(self._run, partition)
        raise CaptureError(
            self.method,
            "these inputs lead to another graph than the one captured: a branch, a size or a value that was fixed to "
            "the example's is different.",
            "capture again with these inputs, or name the size that varies in dynamic.",
        )

    def _run(self, partition: CapturedGraph, *values: Any) -> Any:
        self.runs += 1
        return partition.graph_module.forward(*values)


ISOLATED: dict[str, Any] = {
    name: value
    for name, value in (("isolate_recompiles", True), ("recompile_limit", 64))
    if name in inspect.signature(torch.compile).parameters
}
"""Arguments of `torch.compile` with which Dynamo counts the graphs of each compiled model apart.

Otherwise the models of one class share a limit of 8, after which their calls are left to Python.
"""


class ReplayRunner(Runner):
    """Calls a model under Dynamo with the graphs captured from it, and refuses a call that takes others.

    Attributes:
        module: the model.
    """

    def __init__(self, module: Model, dynamic: Dynamic, replay: Replay, answers: Answers, *, fullgraph: bool) -> None:
        """`answers` are those of the arguments that were captured."""
        # What varies was marked; other sizes stay as they were at capture instead of turning into symbols.
        choice = False if dynamic.choice is None and not dynamic.dimensions else dynamic.choice
        super().__init__(torch.compile(module, backend=replay, dynamic=choice, fullgraph=fullgraph, **ISOLATED))
        self.module = module
        self._replay, self._dynamic, self.answers = replay, dynamic, answers

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the captured graphs, with Dynamo's own guards."""
        leaves = named_leaves(self.module, args, kwargs)
        self._dynamic.check(leaves)
        refuse_other_answers(self.answers, leaves)
        with mark_dimensions(self._dynamic, leaves, self._replay.method):
            runs = self._replay.runs
            try:
                result = super().__call__(*args, **kwargs)
            except torch._dynamo.exc.BackendCompilerFailed as error:
                raise error.inner_exception from error
            except torch._dynamo.exc.Unsupported as error:
                raise CaptureError(
                    self._replay.method,
                    "these inputs lead to a place that Dynamo cannot read, where the graph that was captured goes on: "
                    f"{str(error).splitlines()[0]}.",
                    "capture again with these inputs.",
                ) from error
        if self._replay.runs == runs and self._replay.known:
            # So it is where Dynamo has met its limit of recompilations, and where it is switched off.
            raise CaptureError(
                self._replay.method, "Dynamo left this call to Python: no captured graph ran.", "capture again."
            )
        return result


def _constants(graph_module: fx.GraphModule) -> dict[str, torch.Tensor]:
    """Tensors that the graph itself holds: the text names them, and does not say their values."""
    return {**dict(graph_module.named_buffers()), **dict(graph_module.named_parameters())}


def _same(constants: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> bool:
    """Whether they agree in values. Tensors without values (on the meta device) are the same where they are."""
    return constants.keys() == others.keys() and all(
        same_value(one.detach(), others[name].detach()) for name, one in constants.items() if not one.is_meta
    )


def _text(graph_module: fx.GraphModule) -> str:
    return "\n".join(one.code for one in graph_module.modules() if isinstance(one, fx.GraphModule))
