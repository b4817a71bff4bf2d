"""Writing module calls as the functions that they run, with their weights as inputs."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from fxopt_core.capture.captured_graph import CapturedGraph
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.methods.dynamo import GraphExtractor
from fxopt_workbench.standalone.store import ADVICE


def without_module_calls(partition: CapturedGraph, method: str) -> CapturedGraph:
    """The same graph with `call_module` nodes replaced; itself where there are none.

    Graphs from `symbolic_trace` call modules (`self.conv1(x)`), whose construction is not in the graph. Dynamo
    follows such a call to the functions behind it.

    Raises:
        CaptureError: Dynamo cannot follow a module, or something random differs on the way.
    """
    graph_module = partition.graph_module
    if partition.example_inputs is None or not any(_calls_a_module(node) for node in graph_module.graph.nodes):
        return partition
    extractor = GraphExtractor()
    torch._dynamo.reset()
    try:
        compiled = torch.compile(copy.deepcopy(graph_module), backend=extractor, fullgraph=True)
        with torch.random.fork_rng(devices=[]):
            restore_random_state(partition.random_state)
            compiled(*copy.deepcopy(partition.example_inputs))
    except torch._dynamo.exc.TorchDynamoException as error:
        first = str(error).strip().splitlines()[0]
        raise CaptureError(method, f"a module in the graph cannot be written as functions: {first}.", ADVICE) from error
    finally:
        torch._dynamo.reset()
    if len(extractor.partitions) != 1:
        raise CaptureError(method, f"the modules' functions make {len(extractor.partitions)} graphs, not one.", ADVICE)
    (lowered,) = extractor.partitions
    return replace(lowered, random_state=partition.random_state)


def restore_random_state(states: dict[str, Any]) -> None:
    """Put the generators into the states that `read_random_state` read."""
    for device, state in states.items():
        if device == "cpu":
            torch.set_rng_state(state)
        else:
            torch.cuda.set_rng_state(state, device)


def _calls_a_module(node: fx.Node) -> bool:
    if node.op != "call_module" or node.graph.owning_module is None:
        return False
    return not isinstance(node.graph.owning_module.get_submodule(str(node.target)), fx.GraphModule)
