"""A Dynamo backend that compiles nothing and keeps every graph that it is handed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from fxopt_core.capture.captured_graph import CapturedGraph
from fxopt_core.capture.sources import dynamo_inputs
from fxopt_core.graphs.names import count_operations


class GraphExtractor:
    """A backend for `torch.compile` that records the graphs and runs them unchanged.

    ```python
    extractor = GraphExtractor()
    compiled = torch.compile(model, backend=extractor)
    compiled(example_input)
    print(len(extractor.partitions), "graphs")
    ```

    Dynamo calls the backend once for each graph, in the order of the code. The example inputs that it hands
    over are the parameters, buffers and arguments that the graph reads, one for each placeholder.

    Attributes:
        partitions: the graphs in the order of capture, with what their inputs stand for, and the values
            of their first run.
    """

    def __init__(self) -> None:
        self.partitions: list[CapturedGraph] = []

    def __call__(self, graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Keep the graph; the callable returned is what Dynamo runs in place of the user's code."""
        partition = CapturedGraph(graph_module, dynamo_inputs(graph_module))
        self.partitions.append(partition)
        return partition.run

    @property
    def graphs(self) -> tuple[fx.GraphModule, ...]:
        """The captured graphs in the order of capture."""
        return tuple(partition.graph_module for partition in self.partitions)

    def operation_counts(self) -> Counter[str]:
        """How often each operation occurs over all graphs."""
        return sum((count_operations(graph) for graph in self.graphs), Counter())
