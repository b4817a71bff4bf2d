"""What must go and what must stay: of each operation as many are left as are needed, and the graph does the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import inner_graph, module_of, own_nodes, placeholders
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import DRAWS, PURE, WRITES, Composer, once_a_case, original_of
from autograder.exercises.day2.programs import inputs_of, program
from autograder.exercises.graph_comparison import (
    COMMON,
    behaviour,
    changed_modules,
    first_difference,
    stale,
    unusable,
)
from autograder.exercises.seen_effects import Seen, seen_effects
from fxopt_core.graphs import operation_name

MISCONCEPTIONS = COMMON | {
    "removed an input": (
        "You removed an input that nobody reads. Callers still pass it: the signature of the graph must stay."
    ),
    "removed a write": (
        "You removed a node whose value nobody reads, but which writes into a tensor. A method whose name ends in `_` "
        "changes its tensor, and so does `+=`. A write stays even where nobody reads the tensor afterwards."
    ),
    "removed a write through a view": (
        "You removed a write into a view, such as `first = a[0]`: a view shares its memory with the tensor that it was "
        "made from, and whoever reads that one sees the write."
    ),
    "ignored flags": (
        "You removed a function that writes because it is told to: `inplace=True` writes into its input, `out=` into "
        "the tensor that it names."
    ),
    "ignored the module": (
        "You removed a call of a module that writes, into its input or into its own weights. Which module it is says "
        "`graph_module.get_submodule(node.target)`; `effects_of` asks it."
    ),
    "removed a draw": (
        "You removed a random draw. Its value was read by nobody, but it moved the random stream: every later draw is "
        "now another number."
    ),
    "ignored training": (
        "You removed a BatchNorm that is in training: each call updates its running statistics, which the model keeps."
    ),
    "removed a check": "You removed an assertion. Nobody reads its value, but it is there to stop a run that is wrong.",
    "removed a switch": (
        "You removed a switch of the mode (gradients, autocast). Nobody reads its value, but the nodes after it now "
        "run in another mode: `effects_of(node).context`."
    ),
    "removed the unknown": (
        "You removed a call of which nothing is known (`effects_of(node).opaque`): it may do anything, so it stays."
    ),
    "left what is dead": "Something is left that nobody needs: no output, no check and no effect depends on it.",
    "stopped halfway": (
        "Something dead is left. When a node goes, what only it read is dead, too: which order of the nodes finds all "
        "of them in one walk?"
    ),
    "spared modules": (
        "A call of a module is left that nobody reads and that has no effect: in evaluation mode neither Linear nor "
        "Dropout nor BatchNorm does anything but compute."
    ),
    "spared attributes": (
        "A `get_attr` node is left that nobody reads: to read a weight is no effect, and it goes like any operation."
    ),
    "asked what it could do": (
        "An operator is left that could draw or write, but with these arguments does neither. `node.is_impure()` knows "
        "what is called, and not how: ask `effects_of(node)` alone, which looks at the arguments, too."
    ),
    "went by the name": (
        "Something dead is left because of its name. The name of a node says nothing, anybody may choose it: what a "
        "node does says `effects_of(node)`."
    ),
    "graph within": (
        "You put operations into a graph of their own, which yours calls. Remove what is dead, and leave the rest "
        "where it is."
    ),
    "added nodes": "There are nodes that the original does not have: this task only removes.",
    "something else": "The graph that is left computes something else than the original.",
}

UNNAMED = ("something else", "left what is dead")

WEIGHT = {"w": "torch.rand(4, 4)", "p": "nn.Parameter(torch.rand(4, 4))"}
LAYERS = {"layer": "nn.Linear(4, 4)", "norm": "nn.BatchNorm1d(4)", "drop": "nn.Dropout(0.5)"}
DIAMONDS = "\n".join(f"a{i + 1} = torch.sin(a{i}) + torch.cos(a{i})" for i in range(40))
DEAD_DIAMONDS = DIAMONDS.replace("a", "d")

FIXED: tuple[tuple[str, str, dict[str, str], dict[str, Any]], ...] = (
    ("attributes", "a = self.w * 2\nb = self.p + a\nself.p.t()\nreturn torch.erf(x)", WEIGHT, {}),
    ("attribute read twice", "a = self.w * 2\nb = self.w.t()\nreturn b + x", WEIGHT, {}),
    ("a local write", "a = torch.sin(x)\na.add_(1.0)\nreturn x * 2", {}, {}),
    (
        "local writes of every form",
        "a = torch.sin(x)\nF.relu(a, inplace=True)\nb = torch.cos(x)\ntorch.neg(x, out=b)\nc = torch.exp(x)\n"
        "self.act(c)\nd = torch.abs(x)\ntorch.relu_(d)\ne = d * 2\nreturn torch.expm1(x)",
        {"act": "nn.ReLU(inplace=True)"},
        {},
    ),
    (
        "effects at the end",
        "a = torch.sin(x)\nb = torch.cos(x)\nc = a * a\nself.norm(c)\nb.add_(1.0)\ntorch.rand_like(x)\n"
        "torch._assert(x.dim() == 2, 'a matrix')\nx.is_shared()\ntorch._C._set_grad_enabled(False)\nreturn c",
        LAYERS,
        {"modes": {"norm": True}},
    ),
    (
        "a local write, through views",
        "a = torch.sin(x)\nv = a.view(-1)[1:]\nv.zero_()\nc = v * 2\nreturn x * 2",
        {},
        {},
    ),
    (
        "switches",
        "a = torch.sin(x)\ntorch._C._set_grad_enabled(False)\nb = torch.cos(x)\nd = torch.exp(x)\n"
        "torch._C._set_grad_enabled(True)\nreturn a + b, b, torch.sin(a)",
        {},
        {},
    ),
    (
        "autocast",
        'm = torch.amp.autocast_mode._enter_autocast("cpu", torch.bfloat16, True, False)\na = x @ x\nd = x @ a\n'
        "torch.amp.autocast_mode._exit_autocast(m)\nb = x @ x\nreturn a, b",
        {},
        {},
    ),
    ("the unknown", "a = torch.sin(x)\na.is_shared()\na.detach_()\nd = a * 2\nreturn torch.cos(a)", {}, {}),
    ("a draw that reads nothing", "torch.rand(4, 4)\nd = torch.ones(4, 4) * 2\nreturn x + torch.rand_like(x)", {}, {}),
    ("a module that draws", "self.drop(x)\nreturn F.dropout(x, 0.5, True)", LAYERS, {"training": True}),
    (
        "several draws",
        "torch.bernoulli(torch.sigmoid(x))\nd = torch.normal(x, 1.0) * 2\nreturn torch.rand_like(x)",
        {},
        {},
    ),
    (
        "flags by position",
        "a = torch.neg(x)\nF.leaky_relu(a, 0.2, True)\nF.relu(x, False)\nreturn a",
        {},
        {"positional": True},
    ),
    ("dropout that nobody reads", "F.dropout(x, 0.5, True)\nreturn torch.rand_like(x)", {}, {}),
    ("the same write twice", "a = torch.neg(x)\na.add_(1.0)\nb = torch.abs(x)\na.add_(2.0)\nreturn a", {}, {}),
    ("keywords", "torch.sum(x, dim=0, keepdim=True)\nF.softmax(input=x, dim=1)\nreturn x * 2", {}, {}),
    (
        "weights with misleading names",
        "a = self.mul_ * 2\nb = self.rand_like + 1\nself.dropout.t()\nreturn torch.expm1(x)",
        {"mul_": "torch.rand(4, 4)", "rand_like": "torch.rand(4, 4)", "dropout": "nn.Parameter(torch.rand(4, 4))"},
        {},
    ),
    (
        "modules within modules",
        "self.block[0](x)\nself.block[1](x)\nself.block[2](x)\nreturn torch.rand_like(x)",
        {"block": "nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))"},
        {"training": True},
    ),
    (
        "what could only fail",
        "self.table(self.n)\ntorch.gather(x, 1, self.n[None])\nx[self.n]\nreturn x * 2",
        {"table": "nn.Embedding(4, 4)", "n": "torch.tensor([0, 1, 2, 3])"},
        {},
    ),
    (
        "a choice that is drawn",
        "torch.multinomial(torch.sigmoid(x), 2)\nd = torch.sigmoid(x)\nreturn torch.rand_like(x)",
        {},
        {},
    ),
    (
        "flags that say no",
        "F.relu(x, inplace=False)\nF.dropout(x, 0.5, False)\ntorch.sin(x, out=None)\nreturn x * 2",
        {},
        {},
    ),
    (
        "one function, told to write and not",
        "a = torch.neg(x)\nF.relu(x)\nF.relu(a, inplace=True)\nF.relu(x)\nb = torch.abs(x)\nF.leaky_relu(x, 0.2)\n"
        "F.leaky_relu(b, 0.2, inplace=True)\nF.leaky_relu(x, 0.2)\nc = torch.exp(x)\ntorch.sin(x)\n"
        "torch.sin(x, out=c)\ntorch.sin(x)\nreturn a, b, c",
        {},
        {},
    ),
    (
        "one function, told to draw and not",
        "F.dropout(x, 0.5, False)\nF.dropout(x, 0.5, True)\nF.dropout(x, 0.5, False)\nreturn torch.rand_like(x)",
        {},
        {},
    ),
    (
        "operators that could do more",
        "torch.ops.aten.dropout.default(x, 0.5, False)\ntorch.ops.aten.rrelu.default(x, 0.1, 0.3, False)\n"
        "torch.ops.aten.scaled_dot_product_attention.default(x[None], x[None], x[None])\nreturn torch.rand_like(x)",
        {},
        {},
    ),
    ("an out that is read", "a = torch.neg(x)\ntorch.add(x, x, out=a)\nreturn a, x", {}, {}),
    (
        "modes of modules differ",
        "self.norm(x)\nself.still(x)\nself.drop(x)\nself.bare(x)\nreturn torch.rand_like(x)",
        LAYERS | {"still": "nn.BatchNorm1d(4)", "bare": "nn.BatchNorm1d(4, track_running_stats=False)"},
        {"training": True, "modes": {"still": False, "drop": False}},
    ),
    (
        "one module in training, the graph in evaluation",
        "self.norm(x)\nself.layer(x)\nself.drop(x)\nreturn torch.rand_like(x)",
        LAYERS,
        {"modes": {"norm": True, "drop": True}},
    ),
    (
        "a module that writes its weights",
        "self.table(torch.arange(4))\nreturn x * 2",
        {"table": "nn.Embedding(4, 4, max_norm=0.1)"},
        {},
    ),
    (
        "a check that may fail",
        "n = x.size(0)\ntorch._assert(n > 1, 'one row')\nd = x.size(1)\nreturn torch.sin(x)",
        {},
        {"batches": [1]},
    ),
    (
        "parts of one result",
        "a, b = torch.split(torch.sin(x), 2, dim=1)\nc = torch.max(x, dim=0)\nd = c[0]\nreturn b * 2",
        {},
        {},
    ),
    ("what a write reads", "a = torch.sin(x)\nb = a.t()\nx.copy_(b)\nc = b * 2\nreturn torch.zeros(4)", {}, {}),
    ("a state that is written", "self.w.add_(x)\nd = self.w * 2\nself.p.t()\nreturn x.sum()", WEIGHT, {}),
    ("nothing to compute", "d = torch.sin(x)\nreturn x", {}, {}),
    ("nothing at all", "return x", {}, {}),
    ("nested results", "a = torch.sin(x)\nb = torch.cos(x)\nd = a + b\nreturn {'a': [a, (b, 1)], 'x': x}", {}, {}),
    ("many forks", f"a0 = x\nd0 = x\n{DIAMONDS}\n{DEAD_DIAMONDS}\nreturn a40", {}, {}),
    (
        "misleading names",
        "self.relu_(x)\nself.rand(x)\nself.norm(x)\na = torch.neg(x)\nself.linear(a)\nreturn a",
        {"relu_": "nn.Tanh()", "rand": "nn.Linear(4, 4)", "norm": "nn.Identity()", "linear": "nn.ReLU(inplace=True)"},
        {},
    ),
    (
        "whole numbers",
        "a = x + 1\na.add_(2)\nd = a.float()\nx.clamp_(min=2)\nreturn a * x",
        {},
        {"inputs": (([4, 4], "int64"),)},
    ),
    ("no rows", "a = torch.sin(x)\na.add_(1)\nd = a * 2\nreturn a, x", {}, {"inputs": ([0, 4],)}),
)
"""Name, lines, attributes and further entries of a case for each class, the same for every seed."""

STATEMENTS = (
    ("writes", WRITES),
    ("draws", DRAWS),
    ("checks", ("torch._assert({0}.size(0) > 1, 'too few')",)),
    ("unknown", ("{0}.is_shared()",)),
    ("pure", PURE),
)


def hidden_cases(random: Random) -> list[Case]:
    """A case for each class, then programs in which dead chains, effects and what is needed are mixed."""
    fixed = [
        program(f"hidden {name}", body, state=state, trap=name, **{"inputs": ([4, 4],)} | more)
        for name, body, state, more in FIXED
    ]
    return [*fixed, names_of_nodes(random), *(composed(random, number) for number in range(4))]


ACTING_NAMES = (
    ("assert_mask", "_assert", "assert_async"),
    ("add_", "copy_", "relu_", "zero_"),
    ("rand_like", "bernoulli", "dropout", "normal"),
    ("set_grad_enabled", "enter_autocast", "exit_autocast"),
    ("batch_norm", "is_shared", "detach_", "setitem", "out"),
    ("check", "_check", "check_is_size"),
)
"""Names of nodes that sound as if they did something, by what it would be."""

PLAIN_NAMES = ("sin", "mul", "linear", "softmax", "matmul", "sigmoid", "getitem", "unused", "size", "stack")
"""Names of nodes that sound as if they only computed something."""


def names_of_nodes(random: Random) -> Case:
    """What is dead has names that sound like effects, and effects have names that sound like nothing at all.

    What is dead under its own name is there as well: who leaves that, too, makes another mistake.
    """
    lines = (
        "torch.gt(x, 0)\nx.exp()\nx.tanh()\nself.layer(x)\ntorch.neg(x)\nself.w.abs()\ntorch.log1p(torch.cosh(x))\n"
        "self.still(x)\nself.v.cos()\n"
        "x.mul_(0.5)\ntorch.rand_like(x)\ntorch._assert(x.dim() == 2, 'a matrix')\nself.norm(x)\nreturn torch.erf(x)"
    )
    dead, acting = ("gt", "exp", "tanh", "layer", "neg", "w"), ("mul_", "rand_like", "_assert", "norm")
    sounding = random.sample([random.choice(names) for names in ACTING_NAMES], len(dead))
    named = [*sounding, *random.sample(PLAIN_NAMES, len(acting))]
    return program(
        "hidden names of nodes",
        lines,
        state=WEIGHT | {"v": "torch.rand(4, 4)", "still": "nn.Linear(4, 4)"} | LAYERS,
        inputs=([4, 4],),
        modes={"norm": True},
        renamed=dict(zip((*dead, *acting), named, strict=True)),
        trap="names of nodes",
        seed=random.randrange(2**31),
    )


def composed(random: Random, number: int = 0) -> Case:
    """A random program: needed and dead chains, every kind of effect, a region without gradients."""
    composer = Composer(random, ("x", "y"))
    composer.state |= {"norm": "nn.BatchNorm1d(4)", "drop": "nn.Dropout(0.4)"}
    composer.compute(2)
    for _ in range(random.randint(4, 7)):
        kind, forms = random.choice(STATEMENTS)
        # A write goes into a value that was computed for it, so that gradients can flow past it.
        first = composer.let(f"torch.sin({composer.pick()})", known=random.random() < 0.6) if kind == "writes" else None
        line = composer.fill(forms, first)
        if kind in ("writes", "checks", "unknown") or random.random() < 0.5:
            composer.do(line)
        else:
            composer.let(line, known=random.random() < 0.5)
        if random.random() < 0.5:
            chain = composer.compute(1, known=False)
            for _ in range(random.randint(1, 3)):
                chain = composer.let(composer.fill(PURE, chain), known=False)
    for module in random.sample(["self.norm({0})", "self.drop({0})", "self.layer({0})"], random.randint(0, 2)):
        composer.do(composer.fill((module,)))
    if random.random() < 0.5:
        switch = random.randrange(1, len(composer.lines) + 1)
        composer.lines.insert(switch, "torch._C._set_grad_enabled(False)")
        composer.lines.append("torch._C._set_grad_enabled(True)")
    returned = ", ".join(random.sample(composer.values, 2))
    return composer.case(f"hidden mixture {number}", returned, training=random.random() < 0.5, trap="mixture")


Key = tuple[str, Any]


def _key(node: fx.Node) -> Key:
    return node.op, node.target


def needed(seen: dict[fx.Node, Seen], spares: Callable[[fx.Node], bool] | None = None) -> dict[fx.Node, Seen]:
    """The nodes that must stay, with what they were seen to do: found by marking from what can be observed.

    Args:
        seen: what each node does.
        spares: which nodes a mistaken answer keeps, too.
    """
    pending = [
        node
        for node in seen
        if node.op in ("placeholder", "output") or seen[node].acts or (spares is not None and spares(node))
    ]
    marked: set[fx.Node] = set()
    while pending:
        node = pending.pop()
        if node not in marked:
            marked.add(node)
            pending += node.all_input_nodes
    return {node: effects for node, effects in seen.items() if node in marked}


@dataclass(frozen=True)
class Expected:
    """What must be left of a case's graph: its nodes, how many of each kind, and what each mistake would leave."""

    stays: dict[fx.Node, Seen]
    wanted: Counter[Key]
    mistakes: dict[str, Counter[Key]]


@once_a_case
def expected(case: Case) -> Expected:
    """What must be left of the case's graph."""
    seen = seen_effects(original_of(case).graph_module, inputs_of(case, 11))
    stays = needed(seen)
    left: dict[str, Collection[fx.Node]] = {
        "spared modules": needed(seen, lambda node: node.op == "call_module"),
        "spared attributes": needed(seen, lambda node: node.op == "get_attr"),
        "asked what it could do": needed(seen, fx.Node.is_impure),
        "stopped halfway": [
            node for node in seen if node.op in ("placeholder", "output") or seen[node].acts or node.users
        ],
    }
    mistakes = {name: Counter(map(_key, nodes)) for name, nodes in left.items()}
    return Expected(stays, Counter(map(_key, stays)), mistakes)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What went that must stay, then what stayed that must go."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs, known = original_of(case), decode(evidence.graphs["graph"]), expected(case)
    arguments, kept = _inputs(original.graph_module), _inputs(theirs)
    if arguments != kept:
        yield "removed an input", f"(expected {', '.join(arguments)}; came {', '.join(kept) or 'none'})"
        return
    wanted, left = known.wanted, Counter(map(_key, own_nodes(theirs)))
    if within := [str(node.target) for node in own_nodes(theirs) if inner_graph(node) is not None]:
        yield "graph within", f"(the graph calls the graph {within[0]!r})"
        return
    if added := left - Counter(map(_key, own_nodes(original.graph_module))):
        yield "added nodes", f"({', '.join(getattr(target, '__name__', str(target)) for _, target in added)})"
        return
    if removed := _removed(known.stays, wanted - left):
        yield from removed
        return
    if different := first_difference(original.behaviour, behaviour(theirs, original.calls)):
        yield "something else", f"({different})"
        return
    if extra := left - wanted:
        left_there = [node for node in own_nodes(theirs) if _key(node) in extra]
        dead = [operation_name(node) for node in left_there]
        if {node.name for node in left_there} <= set(case.parameters.get("renamed", {}).values()):
            yield "went by the name", f"(left though dead: {', '.join(node.name for node in left_there)})"
            return
        fits = tuple(name for name, counted in known.mistakes.items() if counted == left)
        yield Deviation("left what is dead", fits, f"(left though dead: {', '.join(dead)})", len(known.stays))
        return
    yield Agreement("left what is dead", tuple(name for name, other in known.mistakes.items() if other != wanted))
    if different := changed_modules(original.graph_module, theirs):
        yield "changed the model", f"({different})"
        return
    if problem := stale(evidence, theirs):
        yield problem
    elif evidence.values["old code"]:
        yield "forgot recompile", "(in a second run, where there was nothing to do: the graph may have changed before)"


def _removed(stays: dict[fx.Node, Seen], missing: Counter[tuple[str, Any]]) -> list[tuple[str, str]]:
    """For each kind of effect that is missing the misconception, with the nodes; what is merely read comes last."""
    found: dict[str, list[str]] = {}
    for node, seen in stays.items():
        if _key(node) in missing:
            found.setdefault(_misconception(node, seen, stays), []).append(operation_name(node))
    if len(found) > 1:
        # What only a removed effect reads went with it.
        found.pop("something else", None)
    return [(name, f"(expected to stay: {', '.join(dict.fromkeys(nodes))})") for name, nodes in found.items()]


def _misconception(node: fx.Node, seen: Seen, stays: dict[fx.Node, Seen]) -> str:
    if seen.kind != "write":
        named = {"draw": "removed a draw", "switch": "removed a switch", "check": "removed a check"}
        return named.get(seen.kind, "removed the unknown" if seen.unknown else "something else")
    if node.op == "call_module":
        return (
            "ignored training" if isinstance(module_of(node), nn.modules.batchnorm._BatchNorm) else "ignored the module"
        )
    flagged = (
        node.kwargs.get("out") is not None
        or node.kwargs.get("inplace") is True
        or any(argument is True for argument in node.args)
    )
    if flagged:
        return "ignored flags"
    target = node.args[0] if node.args else None
    made = target.all_input_nodes if isinstance(target, fx.Node) and target.op != "placeholder" else []
    view = any(source in stays and stays[source].value & seen.wrote for source in made)
    own = isinstance(target, fx.Node) and target in stays and stays[target].acts
    return "removed a write through a view" if view and not own else "removed a write"


def _inputs(graph_module: fx.GraphModule) -> list[str]:
    return [str(node.target) for node in placeholders(graph_module)]
