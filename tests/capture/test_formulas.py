"""Sizes that become long formulas: noticed while the model is read, so that fewer sizes vary in time."""

import pytest
import torch
from torch import nn

from fxopt_core.capture import CaptureError, capture
from fxopt_workbench.capturing.formulas import ShortFormulas


class Windows(nn.Module):
    """Fills rows up to whole windows and halves them, stage after stage."""

    def __init__(self, stages: int) -> None:
        super().__init__()
        self.stages = stages

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.stages):
            x = nn.functional.pad(x, (0, -x.shape[-1] % 3))
            x = x.relu()[..., ::2]
        return x


@pytest.mark.parametrize(("stages", "strategy"), [(1, "export"), (6, "export, batch and length")])
def test_where_formulas_grow_long_fewer_sizes_vary(stages, strategy):
    model = Windows(stages)
    captured = capture(model, (torch.randn(2, 3, 50),), "auto", dynamic=True)
    assert captured.attempts[-1].strategy == strategy
    assert ("a size is a formula of" in captured.attempts[0].failure) == (stages > 1)
    assert bool(captured.specialised) == (stages > 1)
    x = torch.randn(5, 4, 50 if stages > 1 else 71)
    assert torch.equal(captured.run(x), model(x))


def test_sizes_that_were_named_are_tried_however_long_their_formulas():
    dynamic = {"x": {2: ("width", 8, 64)}}
    with pytest.raises(CaptureError, match=r"'width' .* does not hold its range") as told:
        capture(Windows(6), (torch.randn(2, 3, 50),), "auto", dynamic=dynamic)
    assert "a size is a formula" not in str(told.value)


def test_the_length_of_a_formula_is_measured_operation_by_operation():
    size = {"x": {2: torch.export.Dim.AUTO}}
    with ShortFormulas(longest=20), pytest.raises(CaptureError, match=r"a formula of \d\d operations"):
        torch.export.export(Windows(6), (torch.randn(2, 3, 50),), dynamic_shapes=size)
    with ShortFormulas(longest=20):
        torch.export.export(Windows(1), (torch.randn(2, 3, 50),), dynamic_shapes=size)
