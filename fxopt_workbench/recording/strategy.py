"""Recording a model's call, and calling what was recorded."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from fxopt_core.capture.captured_graph import CapturedGraph, clone_tensors
from fxopt_core.capture.dimensions import Dynamic, named_leaves
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.result import Captured
from fxopt_core.capture.running import Runner
from fxopt_core.capture.sources import describe_inputs
from fxopt_core.verification.isolation import Model, private_copy
from fxopt_core.verification.state import default_generators
from fxopt_workbench.recording.calling import below_autograd_and_autocast, form_of
from fxopt_workbench.recording.places import module_stack
from fxopt_workbench.recording.reads import Reads
from fxopt_workbench.recording.recorder import METHOD, Recorder

CAVEATS = (
    "It was recorded from one run: every size, branch and value that Python read is that of the example, and the graph "
    "refuses a call on which one is different.",
    "It was recorded below autograd, so it is for inference: its results carry no gradients.",
    "Values that are not tensors, and training or evaluation mode, are fixed to those of this call.",
)


def capture_with_recorder(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> Captured:
    """Run the model once and record its operators. Grad mode, autocast and training mode are those of the caller.

    Raises:
        CaptureError: the run did something that a graph cannot repeat or check, or named sizes are to vary.
    """
    if dynamic.dimensions:
        raise CaptureError(METHOD, "a recording is of one size.", "leave dynamic out.")
    form = form_of(model, args, kwargs)
    recorded, args, kwargs = private_copy(model, args, kwargs)
    leaves, state = named_leaves(recorded, args, kwargs), _state(recorded)
    tensors = {name: value for name, value in leaves.items() if isinstance(value, torch.Tensor)}
    values = clone_tensors(list(tensors.values()))
    memory = {path: tensor.untyped_storage()._cdata for path, tensor in state.items()}
    generators = _other_generators()
    with module_stack(recorded) as modules:
        recorder = Recorder(state, modules)
        for name, tensor in tensors.items():
            recorder.add_input(re.sub(r"\W+", "_", name).strip("_"), tensor)
        with torch.compiler.set_stance("force_eager"), Reads(recorder), recorder:
            outputs = recorded(*args, **kwargs)
        flat, structure = tree_flatten(outputs)
        recorder.finish(flat)
    _refuse_unseen_changes(leaves, named_leaves(recorded, args, kwargs))
    _refuse_unseen_changes(state, _state(recorded))
    if any(tensor.untyped_storage()._cdata != memory[path] for path, tensor in state.items()):
        raise CaptureError(METHOD, "the call gives a parameter or buffer other memory.", "copy values into it instead.")
    if _other_generators() != generators:
        raise CaptureError(METHOD, "the call draws from Python's or NumPy's generator.", "draw from torch's.")
    # The recorded run has changed its own copy, and a first call begins with the model's state.
    held = {target: _state(model).get(target, tensor) for target, tensor in recorder.held.items()}
    graph_module = fx.GraphModule(held, recorder.graph, "Recorded")
    graph_module.train(bool(getattr(model, "training", False)))
    inputs = describe_inputs(graph_module, values, list(tensors), ["input"] * len(tensors))

    def call(module: Model, *args: Any, **kwargs: Any) -> Any:
        form.check(form_of(model, args, kwargs))
        now = named_leaves(model, args, kwargs)
        given = [now[name] for name in tensors]
        with below_autograd_and_autocast():
            return tree_unflatten(module(*given), structure)

    partition = CapturedGraph(copy.deepcopy(graph_module), inputs)
    with below_autograd_and_autocast():
        partition.run(*values)
    partition.graph_module = graph_module
    runner = Runner(graph_module, call)
    return Captured((partition,), METHOD, "aten", (), (*form.guards(), *recorder.guards), CAVEATS, runner=runner)


def _state(model: Model) -> dict[str, torch.Tensor]:
    """Parameters and buffers by every path that leads to them."""
    if not isinstance(model, torch.nn.Module):
        return {}
    return {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }


def _refuse_unseen_changes(before: dict[str, Any], after: dict[str, Any]) -> None:
    """See that a call has put no other object in the place of an input, parameter or buffer.

    Raises:
        CaptureError: it has.
    """
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old is not new and (isinstance(old, torch.Tensor) or repr(old) != repr(new)):
            raise CaptureError(METHOD, f"the call replaces {name} by another object.", "write into it instead.")


def _other_generators() -> bytes:
    """The states of Python's and NumPy's random generators."""
    generators = default_generators()
    return pickle.dumps([generators[name][0]() for name in ("Python", "NumPy")])
