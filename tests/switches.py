"""What torch keeps for a whole process or thread, and a test may leave switched on for the next."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _autograd, _functorch

from fxopt_core.verification.modes import modes

KERNELS = ("flash", "mem_efficient", "math", "cudnn")
"""Of attention, as `torch.backends.cuda` names them."""


def switches() -> dict[str, Any]:
    """Each switch by name: the modes, and how deep the process is in regions and transforms."""
    torch.autocast_increment_nesting()
    return modes() | {
        "regions of autocast": torch.autocast_decrement_nesting(),
        "autocast's cache": torch.is_autocast_cache_enabled(),
        "transforms of torch.func": _functorch.get_dynamic_layer_stack_depth(),
        "inference mode": torch.is_inference_mode_enabled(),
        "forward mode allowed": torch._C._is_fwd_grad_enabled(),
        "why hooks on saved tensors are disabled": _autograd._saved_tensors_hooks_get_disabled_error_message(),
        "hooks on saved tensors": _autograd._top_saved_tensors_default_hooks(True) is not None,
        "kernels of attention": {name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in KERNELS},
        "their order": torch._C._get_sdp_priority_order(),
        "modes for functions": torch._C._len_torch_function_stack(),
        "modes for operators": torch._C._len_torch_dispatch_stack(),
        "deterministic": torch.get_deterministic_debug_mode(),
        "anomaly": torch.is_anomaly_enabled(),
    }
