"""What a pass makes of a trap: right, wrong, or too timid."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx, nn
from traps.cases_verification import PAIRS, naive
from traps.peers import Peer, peers_of

from autograder.traps.oracle import differences, metadata_differences
from autograder.traps.trap import EVENTS, Trap
from fxopt_core.passes import GraphEditor, PassResult, pass_names, run_pass
from fxopt_core.passes.pattern_pass import PatternPass, RewriteRule
from fxopt_core.verification import check_equivalence

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


def calls_left(trap: Trap, module: nn.Module) -> int | None:
    """How many calls there are; except for `dead_code`, only those of which the result needs the value."""
    if not isinstance(module, fx.GraphModule):
        return None
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


def available(trap: Trap) -> bool:
    """Whether there is a pass of ours to run."""
    return bool(trap.rules) or trap.pass_name in pass_names()


def apply(trap: Trap, module: fx.GraphModule) -> PassResult:
    """Run our pass on the graph module, in place. Rules of a trap are a pass of their own."""
    if not trap.rules:
        return run_pass(trap.pass_name, module, **trap.options)
    rules = tuple(RewriteRule(f"rule {n}", pattern, replacement) for n, (pattern, replacement) in enumerate(trap.rules))
    own = type("Own", (PatternPass,), {"rules": rules, "name": trap.pass_name})
    editor = GraphEditor(module)
    result: PassResult = own().run(editor)
    editor.finish()
    return result


def outcome_of_ours(trap: Trap) -> Outcome:
    """What our pass makes of the trap, in all that it promises: more is asked than of a peer."""
    module, _ = trap.program()
    before = operations(module)
    weights = _bits(module)
    state = set(module.state_dict(keep_vars=True))
    EVENTS.clear()
    with torch.random.fork_rng(devices=[]):
        random_state = torch.get_rng_state()
        result = apply(trap, module)
        drew = not torch.equal(random_state, torch.get_rng_state())
    module.graph.lint()
    changed = operations(module) != before
    now, keys = _bits(module), set(module.state_dict(keep_vars=True))
    broken = {
        "the pass itself drew from the random stream": drew,
        "the pass called a function with effects": bool(EVENTS),
        f"changed={result.changed}, which is not true": result.changed != changed,
        "the pass changed weights": any(now.get(name) != bits for name, bits in weights.items()),
        "the keys of state_dict changed": not state <= keys or (keys != state and trap.trains),
        f"a rewrite that has to be refused was made: {result.rewrites}": trap.must_change is False and changed,
        "a second run changes the graph again": apply(trap, module).changed,
    }
    wrong = [what for what, is_so in broken.items() if is_so]

    def transform(module: fx.GraphModule, inputs: tuple[Any, ...]) -> nn.Module:
        apply(trap, module)
        return module

    if not trap.raises:
        wrong += _metadata(trap, transform)
    return _judged(trap, transform, wrong, ours=True)


def outcome_of_peer(trap: Trap, peer: Peer) -> Outcome:
    """What PyTorch's pass makes of the trap. It may make rewrites that ours must refuse, if they are right."""
    transform = partial(peer, trap)
    try:
        return _judged(trap, transform, _metadata(trap, transform) if trap.keeps_metadata else [], ours=False)
    except Exception as error:  # to raise is an outcome
        return Outcome(WRONG, f"raised {type(error).__name__}: {error}".splitlines()[0])


Transform = Callable[[fx.GraphModule, tuple[Any, ...]], nn.Module]


def _metadata(trap: Trap, transform: Transform) -> list[str]:
    module, inputs = trap.program()
    transformed = transform(module, inputs)
    original, _ = trap.program()
    return metadata_differences(original, transformed, inputs) if isinstance(transformed, fx.GraphModule) else []


def _judged(trap: Trap, transform: Transform, wrong: list[str], *, ours: bool) -> Outcome:
    """What a caller sees of the rewrite, with what is known to be wrong already.

    Of a peer not all is asked that ours promises: it may take keys out of `state_dict`, and where it folds weights it
    may keep the new ones under the old names.
    """
    module, inputs = trap.program()
    before = operations(module)
    transformed = transform(module, inputs)
    left, changed = calls_left(trap, transformed), operations(transformed) != before
    wrong = wrong + differences(
        trap.program()[0],
        transformed,
        inputs,
        tolerance=trap.tolerance,
        state_may_change=trap.state_may_change,
        keeps_state=ours,
        same_state=ours or not trap.tolerance,
        trains=trap.trains,
        raises=trap.raises,
        under_autocast=trap.under_autocast,
    )
    if wrong:
        return Outcome(WRONG, "; ".join(wrong))
    if trap.must_change and not changed:
        return Outcome(TIMID, "the graph is as it was")
    if trap.left is not None and left is not None and left > trap.left:
        return Outcome(TIMID, f"{left} calls are left, and {trap.left} suffice")
    return Outcome(RIGHT)


def _bits(module: nn.Module) -> dict[str, tuple[Any, ...]]:
    tensors = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    return {
        name: (tensor.dtype, tuple(tensor.shape), tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist())
        for name, tensor in tensors.items()
    }


def of_peers(trap: Trap) -> dict[str, Outcome]:
    """What each of PyTorch's passes makes of the trap."""
    return {name: outcome_of_peer(trap, peer) for name, peer in peers_of(trap).items()}


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


def scores_of_comparisons() -> list[tuple[str, str, int, int, int]]:
    """Rows of the table for the pairs of programs: how often our verification is right, and `assert_close` is."""
    judges = {
        "fxopt": lambda pair: check_equivalence(*pair.programs(), pair.inputs, **pair.options).equal,
        "torch.testing.assert_close": lambda pair: naive(*pair.programs(), copy.deepcopy(pair.inputs)),
    }
    right = {who: sum(judge(pair) == pair.same for pair in PAIRS) for who, judge in judges.items()}
    return [("verification", who, number, len(PAIRS) - number, 0) for who, number in right.items()]
