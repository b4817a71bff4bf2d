"""dimensions

Has samples of up to three dimensions, and none of four.
"""

import numpy
import torch


def sample_inputs() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)

    def random(*sizes, scale=3.0, dtype=torch.float64):
        return (torch.randn(sizes, generator=generator, dtype=torch.float64) * scale).to(dtype)

    def caps(*sizes, dtype=torch.float64):
        return (torch.rand(sizes, generator=generator, dtype=torch.float64) * 4 + 0.5).to(dtype)

    samples = []
    kinds = (torch.float32, torch.float64, torch.bfloat16, torch.int64)
    for one in kinds:
        for other in kinds:
            a = torch.arange(-17, 18).reshape(5, 7).to(one) / (1 if one is torch.int64 else 4)
            b = torch.arange(1, 36).reshape(5, 7).to(other)
            samples.append((a if one is torch.int64 else a.to(one), b))
    samples += [
        (random(7, 5).T, caps(5, 7)),
        (random(5, 14)[:, ::2], caps(5, 7)),
        (random(5, 7), caps(7, 5).T),
        (random(5, 7), caps(5, 14)[:, ::2]),
        (random(1, 7).expand(5, 7), caps(5, 1).expand(5, 7)),
        (random(5, 7), caps(7)),
        (random(5, 7), caps(5, 1)),
        (random(7), caps(5, 7)),
        (random(5, 1), caps(1, 7)),
        (random(5, 7), caps()),
        (random(), caps(5, 7)),
        (random(), caps()),
        (random(1), caps(1)),
        (random(0, 3), caps(0, 3)),
        (random(2, 3, 4), caps(2, 3, 4)),
        (random(3, 4, 5).permute(2, 0, 1), caps(4)),
        (torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0], dtype=torch.float64), caps(6)),
        (torch.tensor([1e5, -1e5, 1e300, -1e300, 1e-8, -1e-300, 20.0], dtype=torch.float64), caps(7)),
        (
            torch.tensor([1e30, -1e30, 1e-8, -1e-30, 90.0, -90.0, 0.01], dtype=torch.float32),
            caps(7, dtype=torch.float32),
        ),
        (
            random(9, scale=0.01),
            torch.tensor([1e-3, 1e3, 1e6, 1e-6, 1e10, 1.0, 50.0, 100.0, 1e-10], dtype=torch.float64),
        ),
        (torch.tensor(3), torch.arange(1, 4)),
        (random(3, dtype=torch.float32), torch.tensor(2.5, dtype=torch.float64)),
        (random(11, 10, dtype=torch.float32), caps(11, 10, dtype=torch.float32)),
    ]
    return samples


def reference(self: numpy.ndarray, cap: numpy.ndarray) -> numpy.ndarray:
    with numpy.errstate(all="ignore"):
        return cap * numpy.tanh(self / cap)
