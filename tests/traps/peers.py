"""PyTorch's own pass for each of ours, called as its documentation says. Each changes or copies a graph module."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._functorch.compile_utils import fx_graph_cse
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.const_fold import split_const_subgraphs
from torch.fx.experimental.optimization import fuse
from torch.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from autograder.traps.trap import Trap

Peer = Callable[[Trap, fx.GraphModule, tuple[Any, ...]], torch.nn.Module]


def _cse_pass(trap: Trap, module: fx.GraphModule, inputs: tuple[Any, ...]) -> torch.nn.Module:
    result = CSEPass(banned_ops=get_CSE_banned_ops())(module)
    return module if result is None else result.graph_module


def _fx_graph_cse(trap: Trap, module: fx.GraphModule, inputs: tuple[Any, ...]) -> torch.nn.Module:
    _add_examples(module, inputs)
    return fx.GraphModule(module, fx_graph_cse(module.graph))


def _add_examples(module: fx.GraphModule, inputs: tuple[Any, ...]) -> None:
    """Give nodes the example values that `fx_graph_cse` looks at, if they have none and it can be done."""
    if any("val" in node.meta for node in module.graph.nodes):
        return
    copied = copy.deepcopy(module)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        try:
            FakeTensorProp(copied, FakeTensorMode(allow_non_fake_inputs=True)).propagate(
                *copied.graph.process_inputs(*copy.deepcopy(inputs))
            )
        except Exception:  # then the peer works without, as it does for its other callers
            return
        finally:
            torch.set_autocast_enabled("cpu", False)
    for node, example in zip(module.graph.nodes, copied.graph.nodes, strict=True):
        if "val" in example.meta:
            node.meta["val"] = example.meta["val"]


def _eliminate_dead_code(trap: Trap, module: fx.GraphModule, inputs: tuple[Any, ...]) -> torch.nn.Module:
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def _split_const_subgraphs(trap: Trap, module: fx.GraphModule, inputs: tuple[Any, ...]) -> torch.nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return split_const_subgraphs(module)


def _fuse(trap: Trap, module: fx.GraphModule, inputs: tuple[Any, ...]) -> torch.nn.Module:
    return fuse(module)


def _replace_pattern(trap: Trap, module: fx.GraphModule, inputs: tuple[Any, ...]) -> torch.nn.Module:
    for pattern, replacement in (*trap.rules, *trap.peer_rules):
        fx.replace_pattern(module, pattern, replacement)
    return module


REPLACE_PATTERN: dict[str, Peer] = {"torch.fx.replace_pattern": _replace_pattern}

PEERS: dict[str, dict[str, Peer]] = {
    "common_subexpressions": {"CSEPass": _cse_pass, "fx_graph_cse": _fx_graph_cse},
    "dead_code": {"eliminate_dead_code": _eliminate_dead_code},
    "constant_folding": {"split_const_subgraphs": _split_const_subgraphs},
    "conv_batchnorm_folding": {"optimization.fuse": _fuse},
}
"""Peers by the name of our pass. Where a trap brings rules, `replace_pattern` is its peer."""


def peers_of(trap: Trap) -> dict[str, Peer]:
    """PyTorch's passes that do what the trap is about."""
    return REPLACE_PATTERN if trap.rules or trap.peer_rules else PEERS.get(trap.pass_name, {})
