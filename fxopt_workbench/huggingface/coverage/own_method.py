"""What this distribution itself makes of a model of transformers."""

from __future__ import annotations

import torch

from fxopt_core.capture import capture
from fxopt_workbench.huggingface.coverage.methods import Recording


def auto(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> Recording:
    """`fxopt_core.capture.capture(method="auto")`; it fixes by itself the sizes that cannot vary."""
    captured = capture(model, dict(inputs), "auto", dynamic=True)
    details = {
        "method": captured.method,
        "strategy": next(one.strategy for one in captured.attempts if one.agreements == captured.agreements),
        "adaptations": list(captured.adaptations),
        "refuses": list(captured.specialised),
    }
    return Recording(captured.run, captured.graphs, details, drops_caches=True)
