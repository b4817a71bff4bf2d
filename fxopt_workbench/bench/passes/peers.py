"""What torch itself offers for the same work. Each function does the work and returns the graph that it leaves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import fx

aten = torch.ops.aten


def pattern(x: Any) -> Any:
    """What the one-pattern rewrite looks for."""
    return aten.mul.Tensor(x, aten.sigmoid.default(x))


def replacement(x: Any) -> Any:
    """What it puts there."""
    return aten.silu.default(x)


def two_anchor_pattern(x: Any, y: Any) -> tuple[Any, Any]:
    """A pattern of two outputs that share both inputs."""
    return aten.add.Tensor(x, y), aten.sub.Tensor(x, y)


def two_anchor_replacement(x: Any, y: Any) -> tuple[Any, Any]:
    """The same two values, bit for bit. The pattern does not occur in it."""
    return aten.sub.Tensor(x, y, alpha=-1), aten.add.Tensor(x, y, alpha=-1)


class Peer(NamedTuple):
    """One way in which torch does the same.

    Attributes:
        name: what it is called in torch.
        run: does the work on a graph module that it may change, and returns the graph.
        recompiles: whether generating Python code is part of what `run` does and cannot be left out.
    """

    name: str
    run: Callable[[fx.GraphModule], fx.Graph]
    recompiles: bool = False


def _fx_graph_cse(graph_module: fx.GraphModule) -> fx.Graph:
    from torch._functorch.compile_utils import fx_graph_cse

    return fx_graph_cse(graph_module.graph)


def _cse_pass(graph_module: fx.GraphModule) -> fx.Graph:
    from torch.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops

    result = CSEPass(get_CSE_banned_ops()).call(graph_module)
    return result.graph_module.graph


def _split_const_subgraphs(graph_module: fx.GraphModule) -> fx.Graph:
    from torch.fx.experimental.const_fold import split_const_subgraphs

    with warnings.catch_warnings():
        # It warns of get_attr nodes that it makes itself.
        warnings.filterwarnings("ignore", message="Attempted to insert a get_attr Node", category=UserWarning)
        folded = split_const_subgraphs(graph_module)
    # The constants are computed at the first call; ours are there when the pass is done.
    folded.run_folding()
    return folded.graph


def _eliminate_dead_code(graph_module: fx.GraphModule) -> fx.Graph:
    graph_module.graph.eliminate_dead_code()
    return graph_module.graph


def _replace_pattern(graph_module: fx.GraphModule) -> fx.Graph:
    fx.replace_pattern(graph_module, pattern, replacement)
    return graph_module.graph


@cache
def _inductor_pass() -> Any:
    """Inductor's matcher with the pattern, and the cheapest handler that puts the replacement there."""
    from torch._inductor import pattern_matcher

    matcher = pattern_matcher.PatternMatcherPass()
    x = pattern_matcher.KeywordArg("x")
    sigmoid = pattern_matcher.CallFunction(aten.sigmoid.default, x)

    @pattern_matcher.register_graph_pattern(
        pattern_matcher.CallFunction(aten.mul.Tensor, x, sigmoid), pass_dict=matcher
    )
    def rewrite(match: Any, x: fx.Node) -> None:
        node = match.output_node()
        with match.graph.inserting_before(node):
            new = match.graph.call_function(aten.silu.default, (x,))
        new.meta.update(node.meta)
        node.replace_all_uses_with(new)
        match.erase_nodes()

    return matcher


def _inductor_matcher(graph_module: fx.GraphModule) -> fx.Graph:
    _inductor_pass().apply(graph_module)
    return graph_module.graph


def _recompile(graph_module: fx.GraphModule) -> fx.Graph:
    graph_module.recompile()
    return graph_module.graph


PEERS: dict[str, tuple[Peer, ...]] = {
    "common_subexpressions": (Peer("fx_graph_cse", _fx_graph_cse), Peer("CSEPass", _cse_pass, recompiles=True)),
    "constant_folding": (Peer("split_const_subgraphs", _split_const_subgraphs, recompiles=True),),
    "dead_code": (Peer("eliminate_dead_code", _eliminate_dead_code),),
    "one_pattern_rewrite": (
        Peer("replace_pattern", _replace_pattern, recompiles=True),
        Peer("Inductor's PatternMatcherPass", _inductor_matcher),
    ),
    # replace_pattern takes minutes here: its time grows with the square of the matches.
    "dense_pattern_rewrite": (Peer("Inductor's PatternMatcherPass", _inductor_matcher),),
    "inference_preset": (Peer("GraphModule.recompile", _recompile),),
}
"""Peers of each thing that is timed. A pass that is not here has no peer in torch, and only its growth is looked at."""
