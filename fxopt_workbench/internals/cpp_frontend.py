"""A small model in the C++ frontend: its source, and how it is built and run.

The program is ordinary C++: it links the libraries of the installed wheel and needs no Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import torch

PROGRAM = """\
#include <torch/torch.h>
#include <cstdio>

struct Net : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};

  Net() {
    first = register_module("first", torch::nn::Linear(1, 16));
    second = register_module("second", torch::nn::Linear(16, 1));
  }

  torch::Tensor forward(torch::Tensor x) {
    return second(torch::tanh(first(x)));
  }
};

int main() {
  torch::manual_seed(0);
  Net net;
  auto x = torch::linspace(-3, 3, 64).unsqueeze(1);
  auto y = torch::sin(x);
  torch::optim::Adam optimizer(net.parameters(), torch::optim::AdamOptions(0.05));
  for (int step = 0; step <= 200; ++step) {
    auto loss = torch::mse_loss(net.forward(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 50 == 0) std::printf("step %d loss %.6f\\n", step, loss.item<double>());
  }
}
"""
"""Learns a sine with two linear layers and prints its loss every 50 steps."""

SECONDS = 600
"""The longest that building may take."""


class CompilerMissingError(RuntimeError):
    """There is no C++ compiler; the message says what to do."""


def build(folder: Path, program: str = PROGRAM) -> Path:
    """Compile a program against the installed torch.

    Args:
        folder: where source and program go.
        program: C++.

    Returns:
        The program.

    Raises:
        CompilerMissingError: neither `$CXX` nor g++, clang++ or c++ is there.
        RuntimeError: it does not compile; the message is the compiler's.
    """
    names = [os.environ.get("CXX", ""), "g++", "clang++", "c++"]
    compiler = next((path for name in names if name and (path := shutil.which(name))), None)
    if compiler is None:
        raise CompilerMissingError(
            "no C++ compiler was found (g++ or clang++); install one, or name yours in the environment variable CXX"
        )
    torch_folder = Path(torch.__file__).parent
    include, library = torch_folder / "include", torch_folder / "lib"
    source, target = folder / "net.cpp", folder / "net"
    source.write_text(program)
    command = [
        *(compiler, "-std=c++20", "-O1", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"),
        *(f"-I{include}", f"-I{include / 'torch/csrc/api/include'}", str(source), "-o", str(target)),
        *(f"-L{library}", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{library}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"the program does not compile: {done.stderr[-2000:]}")
    return target


def run(program: Path) -> list[tuple[int, float]]:
    """Run a program that `build` made: its steps, with the loss at each.

    Raises:
        RuntimeError: it fails, or prints something else.
    """
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"the program ended with {done.returncode}: {done.stderr[-2000:]}")
    found = [line.split() for line in done.stdout.splitlines()]
    if not found or any(len(words) != 4 for words in found):
        raise RuntimeError(f"the program printed something else than its losses: {done.stdout[-500:]!r}")
    return [(int(words[1]), float(words[3])) for words in found]
