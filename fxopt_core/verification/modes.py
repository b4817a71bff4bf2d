"""The modes of torch on which the meaning of operations depends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


def modes() -> dict[str, Any]:
    """Each mode by name, in words: of autocast the dtype, or that it is off."""
    autocast = {
        f"autocast on {kind}": torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else "off"
        for kind in _kinds_of_device()
    }
    hooks = [name for name in global_hooks() if "registration" not in name]
    return {
        "default dtype": torch.get_default_dtype(),
        **autocast,
        "grad mode": torch.is_grad_enabled(),
        "hooks of all modules": ", ".join(hooks) or "none",
    }


def global_hooks() -> list[str]:
    """The names in `torch.nn.modules.module` of the hooks for all modules at once, where there are any."""
    # Beside the hooks are notes on them, of which torch leaves some behind when a hook is removed.
    return [name for name, hooks in _GLOBAL_HOOKS.items() if any(map(callable, hooks.values()))]


_GLOBAL_HOOKS = {
    name: hooks
    for name, hooks in vars(torch.nn.modules.module).items()
    if name.startswith("_global_") and isinstance(hooks, dict)
}


@contextmanager
def same_modes() -> Iterator[None]:
    """Put the modes back at the end, whatever is switched inside. Inference mode is off inside."""
    default_dtype = torch.get_default_dtype()
    with ExitStack() as stack:
        stack.callback(torch.set_default_dtype, default_dtype)
        for kind in _kinds_of_device():
            enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
            stack.callback(torch.set_autocast_enabled, kind, enabled)
            stack.callback(torch.set_autocast_dtype, kind, dtype)
        stack.enter_context(torch.set_grad_enabled(torch.is_grad_enabled()))
        stack.enter_context(torch.inference_mode(False))
        with same_levels():
            yield


@contextmanager
def same_levels() -> Iterator[None]:
    """Leave at the end the transforms of `torch.func` that began inside: a call that raises in one stays there.

    A graph holds their beginnings and ends as plain calls, which no exception unwinds.
    """
    depth, dual = torch._C._functorch.get_dynamic_layer_stack_depth(), _in_dual_level()
    try:
        yield
    finally:
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if not dual and _in_dual_level():
            torch._C._exit_dual_level(level=0)


def _in_dual_level() -> bool:
    """Whether forward-mode differentiation has begun, which torch only tells when it begins."""
    try:
        torch._C._exit_dual_level(level=torch._C._enter_dual_level())
    except RuntimeError:
        return True
    return False


def _kinds_of_device() -> set[str]:
    return {"cpu", torch._C._get_accelerator().type}
