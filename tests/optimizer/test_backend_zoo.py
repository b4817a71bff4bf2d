"""The models of the zoo through the backend: forward and backward as in eager, and as many rewrites as elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from fxopt_core.capture import capture
from fxopt_core.optimizer import PipelineResult, run_passes
from fxopt_core.passes import choose_passes
from fxopt_workbench import zoo

pytestmark = pytest.mark.filterwarnings("ignore")

SAME = ("simple", "mlp", "cnn", "deep-cnn", "redundant", "resnet", "yolos")
"""Models of which the backend makes exactly the rewrites that `GraphOptimizer` makes."""

OTHERS = {
    "control": "it has two graphs here, and torch.export has none",
    "loops": "it has two graphs here, and torch.export has none",
    "bert": "its position_ids are a buffer, which is an input of the graph here and may change",
    "clip": "its position_ids are a buffer, which is an input of the graph here and may change",
    "llama": "its inv_freq is a buffer, which is an input of the graph here and may change",
    "gpt2": "where it is exported, two parts of its mask become constants of their own",
    "whisper": "where it is exported, two parts of its mask become constants of their own",
    "vit": "transformers makes a mask in another way when it is exported",
    "detr": "transformers makes a mask in another way when it is exported",
    "t5": "transformers makes a mask in another way when it is exported",
    "mixtral": "its inv_freq is a buffer, which is an input of the graph here and may change",
    "mamba": "it calls vmap, of which only the calls are known",
}
"""Models with another count, and why. (Others, such as rt-detr and the yolos, take half a minute each.)"""


def rewrites(results: list[PipelineResult]) -> Counter[str]:
    """How often each pass changed something. Dead code aside: what capture leaves behind differs."""
    made = Counter(rewrite.rule.partition("/")[0] for result in results for rewrite in result.rewrites)
    made.pop("dead_code", None)
    return made


def outputs(model: Any, inputs: Any) -> list[torch.Tensor]:
    torch.manual_seed(1)
    result = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def gradients(model: nn.Module, called: Any, inputs: Any) -> dict[str, torch.Tensor | None]:
    model.zero_grad()
    found = [leaf.double().square().mean() for leaf in outputs(called, inputs) if leaf.requires_grad]
    sum(found, torch.zeros((), dtype=torch.float64)).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("name", [*SAME, *OTHERS])
def test_a_model_of_the_zoo_does_the_same(name: str) -> None:
    torch._dynamo.reset()
    chosen = zoo.build(name, "cpu")
    model, inputs = chosen.model, chosen.example_inputs
    seen: list[PipelineResult] = []
    # Inductor takes minutes for these, and the rewrites are the same before it.
    compiled = torch.compile(model, backend="fxopt", options={"then": "eager", "report": seen.append})
    with torch.no_grad():
        torch.testing.assert_close(outputs(compiled, inputs), outputs(model, inputs), rtol=1e-4, atol=1e-5)
    assert not any(result.failures for result in seen)
    reasons = [refusal.reason for result in seen for refusal in result.refusals["lowering"]]
    assert bool(reasons) == (name == "mamba"), reasons
    found = rewrites(seen)
    wanted = gradients(model, model, inputs)
    torch.testing.assert_close(gradients(model, compiled, inputs), wanted, rtol=1e-3, atol=1e-5)

    if name in SAME:
        whole = capture(model, inputs, "export", dynamic=False).module
        assert whole is not None
        assert found == rewrites([run_passes(whole, choose_passes("inference"))])
