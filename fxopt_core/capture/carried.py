"""What a module carries besides its code: hooks, and its own ways with checkpoints. Which of them does a graph lose?

Forward hooks run while the model is captured, so they are part of the graph. All others run beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from itertools import chain

from torch import nn

from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.questions import OWN_GRADIENTS

OF_THE_BACKWARD_PASS = ("_backward_hooks", "_backward_pre_hooks")
"""Those that run in the backward pass: only a graph that still calls the module keeps them."""

ON_ERRORS = "_forward_hooks_always_called"
"""Notes which forward hooks run even when the call raises. No graph does that."""

OF_CHECKPOINTS = [name for name in vars(nn.Module()) if "state_dict" in name]
"""Those that run when a checkpoint is made or loaded, such as `_load_state_dict_pre_hooks`."""

METHODS_OF_CHECKPOINTS = [name for name in dir(nn.Module) if name.endswith(("state_dict", "extra_state"))]
"""Methods of `nn.Module` that a class may override to make and load checkpoints in its own way."""


def lost_gradients(model: nn.Module, called: Container[str], asked: Collection[str]) -> str:
    """What a model does in the backward pass and its graph does not, in words; empty where there is nothing.

    Args:
        model: the model that was captured.
        called: paths of the modules that the graph calls, whose hooks run as ever.
        asked: what the model asked while it was captured. A graph holds the operators of an `autograd.Function`'s
            forward, and not its backward; no trial could show that the two agree everywhere.
    """
    found = [
        f"{'.'.join(['self', *filter(None, [path])])} has {name}"
        for path, part in model.named_modules()
        for name in OF_THE_BACKWARD_PASS
        if getattr(part, name, None) and not any(above in called for above in _upwards(path))
    ]
    return ", ".join([*found, *(f"it calls {one}" for one in sorted(asked) if one.endswith(OWN_GRADIENTS))])


def refuse_hooks_on_errors(model: nn.Module, method: str) -> None:
    """Refuse a model with a hook that runs even when the call raises.

    Raises:
        CaptureError: it has one.
    """
    for path, part in model.named_modules():
        if getattr(part, ON_ERRORS, None):
            raise CaptureError(
                method,
                f"{path or 'the model'} has a hook that runs even when the call raises, which no graph does.",
                "register it without always_call=True.",
            )


def own_checkpoints(model: nn.Module) -> str:
    """Hooks and methods with which the model makes and loads checkpoints in its own way, in words.

    What is torch's own only reads checkpoints of older versions, and does not count.
    """
    found = []
    for path, part in model.named_modules():
        hooks = [
            name for name in OF_CHECKPOINTS if any(not _of_torch(hook) for hook in getattr(part, name, {}).values())
        ]
        methods = [name for name in METHODS_OF_CHECKPOINTS if not _of_torch(getattr(part, name))]
        found += [f"{'.'.join(['self', *filter(None, [path])])} has {name}" for name in (*hooks, *methods)]
    return ", ".join(found)


def persistent_names(model: nn.Module) -> set[str]:
    """The names of parameters and persistent buffers, without asking the model's own `state_dict`."""
    return {
        f"{path}.{name}" if path else name
        for path, part in model.named_modules(remove_duplicate=False)
        for name, tensor in chain(part._parameters.items(), part._buffers.items())
        if tensor is not None and name not in part._non_persistent_buffers_set
    }


def _upwards(path: str) -> Iterator[str]:
    """The path of a module and of those that hold it, the root left out."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def _of_torch(function: object) -> bool:
    wrapped = getattr(function, "hook", function)  # torch puts hooks that ask for the module into an object
    module = getattr(wrapped, "__module__", None) or type(wrapped).__module__
    return str(module).partition(".")[0] == "torch"
