"""What a pass makes of a trap: right, wrong, or too timid."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from traps.oracle import differences, metadata_differences
from traps.peers import Peer, peers_of
from traps.trap import EVENTS, Trap

from fxopt_core.passes import pass_names, run_pass

RIGHT, TIMID, WRONG = VERDICTS = ("right", "timid", "wrong")


@dataclass(frozen=True)
class Outcome:
    """Right; wrong, in that something else is computed or the pass raises; or timid: a legal rewrite is not made.

    Attributes:
        verdict: `right`, `wrong` or `timid`.
        reason: what is wrong, in words.
    """

    verdict: str
    reason: str = ""


def operations(module: nn.Module) -> list[str]:
    """The calls of a graph with their arguments, in order."""
    if not isinstance(module, fx.GraphModule):
        return []
    return [f"{node.name} = {node.target}{node.args}{node.kwargs}" for node in module.graph.nodes if _is_call(node)]


def _is_call(node: fx.Node) -> bool:
    return node.op.startswith("call")


def calls_left(trap: Trap, module: fx.GraphModule) -> int:
    """How many calls there are; except for `dead_code`, only those of which the result needs the value."""
    if trap.pass_name == "dead_code":
        return len(operations(module))
    needed: set[fx.Node] = set()
    pending = list(module.graph.output_node().all_input_nodes)
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += node.all_input_nodes
    return sum(map(_is_call, needed))


def outcome_of_ours(trap: Trap) -> Outcome:
    """What our pass makes of the trap, in all that it promises: more is asked than of a peer."""
    module, _ = trap.program()
    before = operations(module)
    weights = _bits(module)
    state = set(module.state_dict(keep_vars=True))
    EVENTS.clear()
    with torch.random.fork_rng(devices=[]):
        random_state = torch.get_rng_state()
        result = run_pass(trap.pass_name, module, **trap.options)
        if not torch.equal(random_state, torch.get_rng_state()):
            return Outcome(WRONG, "the pass itself drew from the random stream")
    module.graph.lint()
    changed = operations(module) != before
    broken = {
        "the pass called a function with effects": bool(EVENTS),
        f"changed={result.changed}, which is not true": result.changed != changed,
        "the pass changed weights": any(_bits(module).get(name) != bits for name, bits in weights.items()),
        f"a rewrite that has to be refused was made: {result.rewrites}": trap.must_change is False and changed,
        "the keys of state_dict changed": set(module.state_dict(keep_vars=True)) != state and not trap.tolerance,
    }
    wrong = [what for what, is_so in broken.items() if is_so]
    wrong += _behaves(trap, module, ours=True)
    if wrong:
        return Outcome(WRONG, "; ".join(wrong))
    if run_pass(trap.pass_name, module, **trap.options).changed:
        return Outcome(WRONG, "a second run changes the graph again")
    return _bold_enough(trap, module, changed)


def outcome_of_peer(trap: Trap, peer: Peer) -> Outcome:
    """What PyTorch's pass makes of the trap. It may make rewrites that ours must refuse, if they are right."""
    module, inputs = trap.program()
    before = operations(module)
    try:
        transformed = peer(trap, module, inputs)
        wrong = _behaves(trap, transformed, ours=False)
    except Exception as error:  # to raise is an outcome
        return Outcome(WRONG, f"raised {type(error).__name__}: {error}".splitlines()[0])
    if wrong:
        return Outcome(WRONG, "; ".join(wrong))
    return _bold_enough(trap, transformed, operations(transformed) != before)


def _behaves(trap: Trap, transformed: nn.Module, *, ours: bool) -> list[str]:
    """What is wrong with a rewrite. Of a peer, the keys of `state_dict` are not asked, and metadata in few traps."""
    original, inputs = trap.program()
    metadata = ours or trap.keeps_metadata
    copied = copy.deepcopy(transformed) if metadata else transformed
    wrong = differences(
        original,
        transformed,
        inputs,
        tolerance=trap.tolerance,
        state_may_change=trap.state_may_change,
        keeps_state=ours,
    )
    if metadata and not wrong and isinstance(copied, fx.GraphModule):
        wrong += metadata_differences(trap.program()[0], copied, inputs)
    return wrong


def _bold_enough(trap: Trap, module: nn.Module, changed: bool) -> Outcome:
    if trap.must_change and not changed:
        return Outcome(TIMID, "the graph is as it was")
    if trap.left is not None and isinstance(module, fx.GraphModule) and calls_left(trap, module) > trap.left:
        return Outcome(TIMID, f"{calls_left(trap, module)} calls are left, and {trap.left} suffice")
    return Outcome(RIGHT)


def _bits(module: nn.Module) -> dict[str, tuple[Any, ...]]:
    tensors = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    return {
        name: (tensor.dtype, tuple(tensor.shape), tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist())
        for name, tensor in tensors.items()
    }


def peer_outcomes(trap: Trap) -> dict[str, Outcome]:
    """What each of PyTorch's passes makes of the trap."""
    return {name: outcome_of_peer(trap, peer) for name, peer in peers_of(trap).items()}


def outcomes(traps: Iterable[Trap]) -> dict[Trap, dict[str, Outcome]]:
    """What each pass makes of each trap, by the name of who is judged; `fxopt` is us."""
    known = pass_names()
    found: dict[Trap, dict[str, Outcome]] = {}
    for trap in traps:
        ours = {"fxopt": outcome_of_ours(trap)} if trap.pass_name in known else {}
        found[trap] = ours | {name: outcome_of_peer(trap, peer) for name, peer in peers_of(trap).items()}
    return found


def scores(found: dict[Trap, dict[str, Outcome]]) -> list[tuple[str, str, int, int, int]]:
    """Rows of a table: family, who is judged, how often right, wrong and timid.

    In the last rows each trap counts once: for PyTorch by the best of its passes.
    """
    counted: dict[tuple[str, str], Counter[str]] = {}
    for trap, judged in found.items():
        peers = [outcome.verdict for who, outcome in judged.items() if who != "fxopt"]
        for who, outcome in judged.items():
            counted.setdefault((trap.family, who), Counter())[outcome.verdict] += 1
        if "fxopt" in judged:
            counted.setdefault(("all", "fxopt"), Counter())[judged["fxopt"].verdict] += 1
        if peers:
            counted.setdefault(("all", "best of PyTorch's"), Counter())[min(peers, key=VERDICTS.index)] += 1
    rows = [(*key, verdicts[RIGHT], verdicts[WRONG], verdicts[TIMID]) for key, verdicts in counted.items()]
    return sorted(rows, key=lambda row: (row[0] == "all", row[0], row[1] != "fxopt", row[1]))
