"""The modes of torch on which the meaning of operations depends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._C import _autograd
from torch.nn.attention import _cur_sdpa_kernel_backends, _sdpa_kernel


def modes() -> dict[str, Any]:
    """Each mode by name, in words: of autocast the dtype, or that it is off."""
    autocast = {
        f"autocast on {kind}": torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else "off"
        for kind in kinds_of_device()
    }
    hooks = [name for name in global_hooks() if "registration" not in name]
    # A default device is a mode for functions, and to ask for it takes longer than to see that there is none.
    device = torch.get_default_device() if torch._C._len_torch_function_stack() else torch.device("cpu")
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": device,
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
    recording = torch.is_grad_enabled()  # which to be outside of inference mode switches on
    with modes_put_back(), torch.inference_mode(False), torch.set_grad_enabled(recording):
        yield


@contextmanager
def modes_put_back() -> Iterator[ExitStack]:
    """Put the modes back at the end, and end the transforms of `torch.func` that began inside.

    Whoever empties the stack that it gives leaves the modes as they are by then.
    """
    depth, dual = torch._C._functorch.get_dynamic_layer_stack_depth(), _in_dual_level()
    regions = _autocast_regions()
    try:
        with ExitStack() as stack:
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            for kind in kinds_of_device():
                stack.callback(torch.set_autocast_enabled, kind, torch.is_autocast_enabled(kind))
                stack.callback(torch.set_autocast_dtype, kind, torch.get_autocast_dtype(kind))
            stack.callback(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled())
            stack.callback(torch.set_grad_enabled, torch.is_grad_enabled())
            stack.callback(torch._C._set_fwd_grad_enabled, torch._C._is_fwd_grad_enabled())
            stack.callback(_put_back_saved_tensors_hooks, _autograd._saved_tensors_hooks_get_disabled_error_message())
            stack.callback(torch._C._set_sdp_priority_order, torch._C._get_sdp_priority_order())
            stack.callback(_sdpa_kernel, _cur_sdpa_kernel_backends())
            yield stack
    finally:
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if not dual and _in_dual_level():
            torch._C._exit_dual_level(level=0)
        while _autocast_regions() > regions:
            # At the end of the outermost one autocast forgets the weights that it has converted.
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()


@contextmanager
def unwound() -> Iterator[None]:
    """Of a call that raises inside, leave nothing switched on: no mode, and no transform of `torch.func`.

    A graph holds the beginnings and ends of both as plain calls, which no exception unwinds. A call that comes to its
    end may switch modes.
    """
    with modes_put_back() as stack:
        yield
        stack.pop_all()


def _put_back_saved_tensors_hooks(why_disabled: str | None) -> None:
    """Of hooks on saved tensors torch keeps in one place whether they are disabled, and why. None: they are not."""
    if why_disabled is None:
        _autograd._saved_tensors_hooks_enable()
    else:
        _autograd._saved_tensors_hooks_disable(why_disabled)


def _autocast_regions() -> int:
    """How many there are around this, which torch only tells when one begins or ends."""
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


def _in_dual_level() -> bool:
    """Whether forward-mode differentiation has begun, which torch only tells when it begins."""
    try:
        torch._C._exit_dual_level(level=torch._C._enter_dual_level())
    except RuntimeError:
        return True
    return False


def kinds_of_device() -> set[str]:
    """The kinds of device of which there is one, as autocast names them."""
    return {"cpu", torch._C._get_accelerator().type}
