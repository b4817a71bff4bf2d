"""The stand-in for MPS refuses double precision on the device, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BEFORE = """
import torch
from fxopt_core.devices import choose_device
device = choose_device()
x = torch.randn(2, 3, device=device)
host = torch.randn(2, 3)
model = torch.nn.Linear(3, 2)
"""

REFUSED = (
    "torch.zeros(2, dtype=torch.float64, device=device)",
    "torch.zeros(2, dtype=torch.complex128, device='cpu:0')",
    "x.double()",
    "x.to(torch.float64)",
    "x.to(dtype=torch.float64)",
    "host.double().to(device)",
    "model.to(device).double()",
    "model.double().to(device)",
    "torch.tensor([1.0], dtype=torch.float64, device=device)",
    "(x * 2).relu().sum(dtype=torch.float64)",
    "torch.complex(x, x) * torch.tensor(1j, dtype=torch.complex128, device=device)",
    "model.to(device)(x).sum().backward(); model.weight.grad.double()",
    "__import__('numpy') and torch.from_numpy(__import__('numpy').ones(3)).to(device)",
)

ALLOWED = (
    "torch.jit.trace(model.to(device), (x,))(x)",
    "host.double()",
    "x.cpu().double()",
    "x.to('cpu').double()",
    "x.to('cpu', torch.float64)",
    "x.to(device='cpu').double()",
    "model.to(device)(x).sum().backward()",
    "model.double()(host.double()).sum().backward()",
    "torch.zeros(2, device=device, dtype=torch.float32); torch.zeros(2, dtype=torch.float64)",
    "(x.cpu().double() - host.double()).abs().max().item()",
    "torch.compile(model.to(device), backend='aot_eager', fullgraph=True)(x).sum().backward()",
    "torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))",
    "torch.export.export(model.to(device), (x,)).module()(x)",
)


def test_torchscript_runs_and_what_comes_out_lies_on_the_device() -> None:
    done = run("""
from fxopt_workbench import zoo

repeated = zoo.build("redundant", device=device)
scripts = [
    (torch.jit.trace(lambda v: v * 0.5, (x,), check_trace=False), (x,)),
    (torch.jit.script(torch.nn.Linear(3, 2).to(device)), (torch.ones(4, 3, device=device),)),
    (torch.jit.trace(repeated.model, repeated.example_inputs, check_trace=False), repeated.example_inputs),
]
for script, inputs in scripts:
    try:
        script.inlined_graph
        script(*inputs).double()
        print("allowed")
    except Exception as error:
        print(type(error).__name__)
""")
    assert done.stdout.split() == ["LackingOnMPSError"] * 3, (done.stdout, done.stderr)


def test_values_on_the_device_are_compared_without_double_precision() -> None:
    done = run("""
from fxopt_core.verification import Tolerance, check_equivalence
from fxopt_core.verification.comparison import largest_magnitude, tensor_error

print(largest_magnitude(x.new_tensor([1.0, -3.0, float("inf")])))
print(tensor_error(x.new_tensor([1.0, 2.5]), x.new_tensor([1.0, 2.0]), Tolerance(1e-4, 1e-6)))
linear = torch.nn.Linear(3, 2).to(device)
print(check_equivalence(linear, lambda v: torch.addmm(linear.bias, v, linear.weight.t()), (x,)).equal)
print(check_equivalence(linear, lambda v: 1.1 * linear(v), (x,), tolerance=Tolerance(1e-4, 1e-6)).equal)
once, twice = (lambda v: (lambda f: f - f)(linear(v))), (lambda v: linear(v) - linear(v))
print(check_equivalence(once, twice, (x.requires_grad_(),)).equal)
""")
    shown = ["3.0", "(0.5, '1 of 2 values differ, first at [1]: 2.5 instead of 2.0')", "True", "False", "True"]
    assert done.stdout.splitlines() == shown, done.stderr


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEFORE + program],
        env=os.environ | {"FXOPT_AS_IF": "mps", **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )


def test_double_precision_on_the_device_is_refused_and_on_the_host_is_not() -> None:
    tries = "\n".join(
        f"""
model = torch.nn.Linear(3, 2)
try:
    {program}
    print("allowed")
except Exception as error:
    print("refused" if type(error).__name__ == "LackingOnMPSError" else repr(error))
"""
        for program in (*REFUSED, *ALLOWED)
    )
    done = run(tries)
    found = dict(zip((*REFUSED, *ALLOWED), done.stdout.splitlines(), strict=True))
    assert {program for program, what in found.items() if what == "refused"} == set(REFUSED), (found, done.stderr)
    assert {program for program, what in found.items() if what == "allowed"} == set(ALLOWED), (found, done.stderr)


def test_without_the_variable_nothing_is_refused() -> None:
    done = run("x.double(); print(device)", FXOPT_AS_IF="", FXOPT_DEVICE="cpu")
    assert done.stdout == "cpu\n", done.stderr


def test_another_device_cannot_be_stood_in_for() -> None:
    done = run("", FXOPT_AS_IF="tpu")
    assert "FXOPT_AS_IF is 'tpu'; the only device that can be stood in for is 'mps'" in done.stderr


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_compilation_goes_on_as_always(backend: str) -> None:
    program = f"""
graphs = []
from torch._dynamo.utils import counters
with torch.no_grad():
    torch.compile(model.to(device), backend={backend!r})(x)
print(counters["stats"]["unique_graphs"])
"""
    done = run(program)
    assert done.stdout == "1\n", done.stderr
