"""One captured graph: what its inputs stand for, and the first values that went through it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_map_only

from fxopt_core.graphs.names import count_operations
from fxopt_core.verification.state import default_generators


@dataclass(frozen=True)
class GraphInput:
    """What one placeholder of a captured graph stands for.

    Attributes:
        name: the placeholder's name in the graph.
        source: where its value comes from, as a Python user would write it: `self.fc.weight`, `x`.
        kind: `parameter`, `buffer`, `constant` (a tensor that the model's code made while it was exported),
            `input` (an argument, or a value from before a graph break) or `size` (a number that stands for
            a dynamic dimension).
        shape: the example's sizes, a dynamic one as its symbol; `None` for what is no tensor.
        dtype: such as `float32`; the Python type's name for what is no tensor.
    """

    name: str
    source: str
    kind: str
    shape: tuple[int | str, ...] | None
    dtype: str


@dataclass
class CapturedGraph:
    """One captured graph. A call of the model runs one or several of them, with Python in between.

    Attributes:
        graph_module: the graph, runnable.
        inputs: what each placeholder stands for, in order.
        role: `forward` or `backward`.
        example_inputs: clones of what the graph was first called with; `None` before it ran.
        example_outputs: clones of what it then returned.
        random_state: of the generators that this call drew from, the state before it, by device (`cpu`, `cuda:0`).
    """

    graph_module: fx.GraphModule
    inputs: tuple[GraphInput, ...]
    role: str = "forward"
    example_inputs: tuple[Any, ...] | None = None
    example_outputs: Any = None
    random_state: dict[str, torch.Tensor] = field(default_factory=dict)

    def operation_counts(self) -> Counter[str]:
        """How often each operation occurs. Inputs, attributes and outputs do not count."""
        return count_operations(self.graph_module)

    def run(self, *values: Any) -> Any:
        """Run the graph as it is. The first call's inputs and outputs are kept as clones."""
        if self.example_inputs is not None:
            return self.graph_module.forward(*values)
        example_inputs = tuple(clone_tensors(value) for value in values)
        random_state = read_random_state()
        outputs = self.graph_module.forward(*values)
        self.example_inputs = example_inputs
        self.random_state = drawn_from(random_state)
        self.example_outputs = clone_tensors(outputs)
        return outputs


def clone_tensors(values: Any) -> Any:
    """A copy of a nested structure whose tensors are clones outside autograd, of the same strides where dense."""
    return tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), values)


def read_random_state() -> dict[str, torch.Tensor]:
    """State of the random generators by device: `cpu`, and each `cuda:N` once CUDA is in use."""
    found = {name.lower(): get for name, (get, _) in default_generators().items()}
    return {name: get() for name, get in found.items() if name.startswith(("cpu", "cuda"))}


def drawn_from(before: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Those of the states read `before` that have changed since."""
    now = read_random_state()
    return {device: state for device, state in before.items() if not torch.equal(state, now[device])}
