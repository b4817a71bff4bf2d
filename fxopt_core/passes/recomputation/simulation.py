"""A training step of a graph without data: what it holds at its peak, and what each node saves and costs."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeCopyMode, FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from fxopt_core.costs.costs import fake_like
from fxopt_core.graphs.examples import UnknownSizeError, value_of
from fxopt_core.passes.recomputation.region import RecomputedRegion

OPERATIONS_PER_BYTE = 10
"""Floating-point operations that take as long as writing one byte: the order of magnitude on CPUs and GPUs alike
(an H200 has 67 TFLOPS in float32 and 4.8 TB/s, its data sheet says). It only ranks regions."""


@dataclass
class NodeRecord:
    """What one node does in the forward pass.

    Attributes:
        saved: the memory that it has autograd keep for backward.
        made: the memory that it allocates.
        used: the memory of its arguments.
        cost: floating-point operations, and `OPERATIONS_PER_BYTE` for each byte that it allocates.
    """

    saved: set[int] = field(default_factory=set)
    made: set[int] = field(default_factory=set)
    used: set[int] = field(default_factory=set)
    cost: float = 0


class _Memory(TorchDispatchMode):
    """Follows what operators allocate and what is freed, on tensors without data.

    Attributes:
        sizes: bytes of every piece of memory, by a number of its own.
        changes: numbers of pieces in the order in which they come (positive) and go (negative); numbers start at 1.
        operations: floating-point operations so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.changes: list[int] = []
        self.operations = 0
        self._numbers: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        count = flop_registry.get(getattr(func, "overloadpacket", None))
        if count is not None:
            self.operations += int(count(*args, **(kwargs or {}), out_val=result))
        for value in tree_leaves(result):
            self.follow(value)
        return result

    def leave_out(self, values: Iterable[Any]) -> None:
        """Never count the memory of these tensors."""
        for value in values:
            if isinstance(value, torch.Tensor):
                self._numbers[value.untyped_storage()._cdata] = 0

    def follow(self, value: Any) -> None:
        """Count the memory of a tensor from now on, if it is new."""
        if not isinstance(value, torch.Tensor):
            return
        storage = value.untyped_storage()
        key = storage._cdata
        if key in self._numbers:
            return
        self._numbers[key] = number = len(self.sizes) + 1
        self.sizes[number] = storage.nbytes()
        self.changes.append(number)
        weakref.finalize(storage, self._freed, key)

    def _freed(self, key: int) -> None:
        self.changes.append(-self._numbers.pop(key))

    def of(self, value: Any) -> set[int]:
        """The memory behind a value; what was there before is not counted."""
        tensors = (leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))
        return {self._numbers.get(tensor.untyped_storage()._cdata, 0) for tensor in tensors} - {0}

    def peak(self, without: Iterable[int]) -> int:
        """Most bytes at a time, some pieces left out."""
        without = set(without)
        live = peak = 0
        for change in self.changes:
            if abs(change) not in without:
                live += self.sizes[abs(change)] if change > 0 else -self.sizes[-change]
                peak = max(peak, live)
        return peak


class _Watched(fx.Interpreter):
    """Notes what each node saves, makes and costs."""

    def __init__(self, graph_module: fx.GraphModule, memory: _Memory) -> None:
        super().__init__(graph_module)
        self.memory = memory
        self.records: dict[str, NodeRecord] = {}

    def run_node(self, n: fx.Node) -> Any:
        memory = self.memory
        self.records[n.name] = record = NodeRecord()
        operations, known = memory.operations, len(memory.sizes)
        record.used = memory.of([self.env[source] for source in n.all_input_nodes])

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            record.saved |= memory.of(tensor)
            return tensor.detach()

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            result = super().run_node(n)
        record.made = set(range(known + 1, len(memory.sizes) + 1))
        allocated = sum(memory.sizes[number] for number in record.made)
        record.cost = memory.operations - operations + OPERATIONS_PER_BYTE * allocated
        return result


class Simulation:
    """Training steps of a graph on tensors that have sizes and no data: nothing is computed, and no memory is needed.

    Args:
        graph_module: the graph, whose inputs have example values. It is copied.

    Attributes:
        module: the copy, whose parameters and buffers have no data. Regions may be made in clones of it.

    Raises:
        UnknownSizeError: the sizes of inputs are not known.
    """

    def __init__(self, graph_module: fx.GraphModule) -> None:
        self._mode = FakeTensorMode()
        with FakeCopyMode(self._mode):
            copied = copy.deepcopy(graph_module)
        # Inputs and results one by one, unchecked, whatever signature the module has.
        copied.graph.set_codegen(fx.graph.CodeGen())
        self.module = fx.GraphModule(copied, copied.graph)
        inputs = graph_module.graph.find_nodes(op="placeholder")
        self._inputs = [_example(node, self._mode) for node in inputs]
        # Those of modules that only regions call are registered in the copy alone.
        self._leaves = [*self._inputs, *copied.parameters()]
        self._buffers = list(copied.buffers())

    @contextmanager
    def _running(self) -> Iterator[_Memory]:
        """Code within runs without data, as it would run by itself; what inputs and parameters take does not count."""
        memory = _Memory()
        memory.leave_out([*self._leaves, *self._buffers])
        try:
            # Within torch.compile, too, what is simulated is a run.
            with self._mode, torch.enable_grad(), torch._guards.tracing(None):
                yield memory
        except DataDependentOutputException as error:
            raise UnknownSizeError(f"sizes in this graph depend on data ({error})") from error

    def record(self) -> tuple[dict[str, NodeRecord], dict[int, int]]:
        """What each node does in the forward pass, by its name, and the bytes of each piece of memory.

        Raises:
            UnknownSizeError: sizes depend on data.
        """
        with self._running() as memory:
            watched = _Watched(self.module, memory)
            with memory:
                watched.run(*self._inputs)
            return watched.records, memory.sizes

    def peak(self, module: fx.GraphModule | None = None) -> int:
        """Most bytes that forward and backward hold at a time beyond parameters, buffers, inputs and all gradients.

        What a kernel takes for itself is not seen. The state of the CPU's random generator, which a region that draws
        keeps in CPU memory, is counted for all of them at once.

        Args:
            module: a clone of `self.module`, by default that itself.

        Raises:
            UnknownSizeError: sizes depend on data.
        """
        module = module or self.module
        with self._running() as memory:
            with memory:
                results = [value for value in tree_leaves(module(*self._inputs)) if isinstance(value, torch.Tensor)]
            results = [value for value in results if value.requires_grad]
            seeds = [torch.empty_like(value) for value in results]
            memory.leave_out(seeds)
            with memory:
                torch.autograd.backward(results, seeds)
            tensors = [leaf for leaf in self._leaves if isinstance(leaf, torch.Tensor)]
            gradients = memory.of([leaf.grad for leaf in tensors])
            for leaf in tensors:
                leaf.grad = None
        drawing = sum(isinstance(part, RecomputedRegion) and part.draws for part in module.modules())
        on_cpu = all(value.device.type == "cpu" for value in results)
        states = (drawing + 1) * torch.get_rng_state().nbytes if drawing and on_cpu else 0
        return memory.peak(gradients) + states


def _example(node: fx.Node, mode: FakeTensorMode) -> Any:
    value = value_of(node)
    if value is None:
        raise UnknownSizeError(f"the size of the input {node.name} is not known")
    made = fake_like(mode, value)
    return made.requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else made
