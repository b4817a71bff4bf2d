"""Real architectures do the same after the passes, forward and backward, evaluated and trained."""

from __future__ import annotations

import pytest
import torch
from real_models import ARCHITECTURES, with_attention_written_out

from fxopt_core.optimizer import GraphOptimizer

WAYS = [("exact", False), ("inference", False), ("training", True)]


@pytest.mark.parametrize(
    ("preset", "training", "name"),
    [
        # DETR in training takes a minute and a half of processor time, the others seconds.
        pytest.param(preset, training, name, marks=pytest.mark.long if (training and name == "detr") else ())
        for preset, training in WAYS
        for name in ARCHITECTURES
    ],
)
def test_a_real_model_does_the_same(name: str, preset: str, training: bool) -> None:
    model, inputs = with_attention_written_out(name)
    optimizer = GraphOptimizer(model.train(training), inputs)
    report = optimizer.optimize(preset).report
    assert report.equivalence
    assert report.denied == ()
    assert report.failures == []
    # DETR in training looks at values to find infinities, which no exported graph can do.
    expected = "dynamo" if (name, training) == ("detr", True) else "export"
    assert report.method == expected, [attempt.failure for attempt in report.attempts]
    assert report.nodes_after <= report.nodes_before
    if name in ("bert", "gpt2", "t5"):
        assert report.nodes_after < 0.9 * report.nodes_before


def test_gradients_of_a_training_step_arrive() -> None:
    model, inputs = with_attention_written_out("gpt2")
    module = GraphOptimizer(model.train(), inputs).optimize("training").module
    torch.manual_seed(0)
    loss = module(**inputs).last_hidden_state.square().mean()
    loss.backward()
    torch.manual_seed(0)
    model(**inputs).last_hidden_state.square().mean().backward()
    gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad)
