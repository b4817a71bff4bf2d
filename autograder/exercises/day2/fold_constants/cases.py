"""Hidden cases of fold_constants: one for each class, and programs of constants, draws, writes and inputs."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.exchange.evidence import Case
from autograder.exercises.composed import DRAWS, PURE, WRITES, Composer, written_cases

AUTOCAST = 'm = torch.amp.autocast_mode._enter_autocast("cpu", torch.bfloat16, True, False)'
FORKS = "\n".join(f"a{i + 1} = torch.sin(a{i}) + torch.cos(a{i})" for i in range(20))
WEIGHT = {"w": "torch.rand(4, 4)", "v": "torch.rand(4, 4)"}
PARAMETER = WEIGHT | {"p": "nn.Parameter(torch.rand(4, 4))"}
LAYERS = WEIGHT | {"layer": "nn.Linear(4, 4)", "drop": "nn.Dropout(0.5)", "norm": "nn.BatchNorm1d(4)"}

FIXED = f"""
== attributes in modules: chain
a = self.block[0].weight.t() * 2
b = self.block[1].weight.abs()
return x @ a - b

== a constant of every kind: chain
a = torch.cat([self.w, self.v], dim=1)[:, 2:6]
b = torch.where(self.v > 0.5, self.w, -0.0)
c = self.w.masked_fill(self.v > 0.5, float("nan"))
d = torch.stack([self.w, self.v])[1]
e = self.w.to(torch.float64)
f = torch.clamp(self.w, max=0.7, min=0.2)
return x @ a - b, c, x @ d, torch.sub(x, e), x - f

== signs of zero: chain
c = self.w * -0.0
d = self.w * 0.0
return torch.atan2(x * 0.0, c), torch.atan2(x * 0.0, d)

== keywords and defaults: two
a = torch.sum(self.w, dim=1, keepdim=True)
b = torch.sub(self.w, self.v, alpha=3)
c = F.softmax(input=self.w, dim=0)
return x + a - b * c

== whole numbers: chain
a = self.n * 2 + 1
return x[a], torch.sub(x, a.float())

== sizes of an input: sizes
n = x.size(0)
a = self.w * 2
return a.sum() * n, x.reshape(n * self.w.size(0))

== sizes that shape: sizes
return x.reshape(self.w.size(1), -1, self.w.shape[0]).sum(dim=0) * self.w.sum()

== a constant behind a size: sizes
n = self.w.size(0)
a = self.w.sin()
return (x @ a) * n

== parts of a result: sizes
a, b = torch.split(self.w, 2, dim=1)
c = torch.max(self.w, dim=0)
return x[:, :2] * a - b + c[0][:2]

== weights that are returned: returned
a = self.w * 2
return self.w, x @ a

== a view of a weight is returned: returned
a = self.w.sin()
return self.w.t(), x @ a, self.v

== a constant that is returned in a list: returned
a = self.w.sin()
b = a.cos()
return {{'a': [a], 'x': x @ b}}

== a view of a constant is returned: returned
a = self.w.sin()
return x @ self.v.cos(), a.view(-1)[1:]

== nothing but a constant is returned: returned
return self.w.sin()

== what is written through a view: written result
a = self.w.sin()
b = a.t()[1:]
b.add_(1.0)
return x @ a

== what is written by a flag: written result
a = self.w - 0.5
F.relu(a, inplace=True)
b = self.w - 0.5
self.act(b)
c = self.v.sin()
torch.add(c, 1.0, out=c)
return x @ a - b + c

== a buffer that is written: written buffer
a = self.w.sin()
self.w.add_(0.25)
b = self.w.cos()
return x @ a - b, x - self.v.sin()

== a buffer that is written behind a view: written buffer
a = self.w.sum(dim=0)
self.w[1].mul_(0.5)
return x @ self.v.sin() + a

== a buffer that another name has, too: written buffer
a = self.w.sin()
self.tied.add_(0.25)
return x @ a

== an input that is written: written input
a = self.w.sin()
b = torch.neg(x)
b.add_(a)
x.add_(a)
return b

== draws: draws
a = F.dropout(self.w, 0.5, True)
b = torch.bernoulli(self.w)
c = F.dropout(self.v, 0.5, False)
d = self.drop(self.v)
return x @ a - b + c - d

== draws of a module: draws
return x @ self.drop(self.w)

== draws that read nothing: draws
return x + torch.rand(4, 4) * self.w.sin()

== what reads nothing: creations
return x * torch.ones(4, 4) + torch.arange(4) * self.w.sin()

== a check of a constant: effects
a = self.w.sum() > 0
torch._assert(a, 'weights')
return x @ self.w.sin()

== statistics of constants: effects
return x @ self.norm(self.w)

== autocast: switch
a = self.w.sin()
{AUTOCAST}
b = self.w @ self.v
torch.amp.autocast_mode._exit_autocast(m)
return x @ a, torch.add(b.float(), x @ self.v.cos())

== without gradients for a while: gradients
a = self.w.sin()
torch._C._set_grad_enabled(False)
b = x @ a
torch._C._set_grad_enabled(True)
return b * x - self.v.cos()

== parameters in training: training
a = self.p.sin() * self.w
b = self.w.cos()
return x @ a - b @ self.layer.weight.exp()

== a frozen parameter in training: training
a = self.frozen.sin() * self.w
return x @ a - self.w.cos()

== layers in training: training
return x @ self.layer(self.w) + self.v.sin()

== parameters and buffers in evaluation: parameters
a = self.p.sin() * self.w
b = self.layer.weight.t() @ a
return x @ b

== what an operation returns as it came: parameters
a = self.p.contiguous()
b = self.layer.weight.to(torch.float32)
return x @ a - self.drop(b).sin() * self.w.float()

== layers in evaluation: modules
a = self.norm(self.layer(self.w))
return x @ self.drop(a).sin()

== layers of other modes: modules
a = self.norm(self.w)
return x @ a.sin()

== many forks: chain
a0 = self.w
{FORKS}
return x @ a20

== a constant that nobody reads: chain
a = self.w.sin()
b = self.v.cos() + a
return x @ a

== one constant, many readers: chain
a = self.w.sin()
b = a.cos()
return x @ a + b, x - b, b * x.sin() + a

== a name that is taken: taken name
c = self.w.exp().sin()
return x @ c - self.taken

== a name that is taken, for the result of a function: taken name
c = torch.sin(self.w)
return x @ c - self.taken

== two names that are taken: taken name
c = self.w.exp().sin()
return x @ c - self.taken + self.taken_too

== a parameter has the name: taken name
c = self.w.exp().sin()
return x @ c - self.taken

== a buffer of two names has it: taken name
c = self.w.exp().sin()
return x @ c - self.taken + self.table

== a parameter of two names has it: taken name
c = self.w.exp().sin()
return x @ c - self.taken + self.table

== the weight itself: nothing
return x @ self.w + self.v

== nothing to compute: nothing
return x

== no rows: chain
a = self.w[:0].sin()
return x.sum() + a.sum(), a + x

== double precision: chain
a = self.w.double().exp()
return x @ a
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "a name that is taken": {"state": WEIGHT | {"taken": "torch.rand(4)"}},
    "a name that is taken, for the result of a function": {"state": WEIGHT | {"taken": "torch.rand(4)"}},
    "two names that are taken": {"state": WEIGHT | {"taken": "torch.rand(4)", "taken_too": "torch.rand(4)"}},
    "a parameter has the name": {"state": WEIGHT | {"taken": "nn.Parameter(torch.rand(4))"}},
    "a buffer of two names has it": {
        "state": WEIGHT | {"table": "torch.arange(4.0)", "taken": "torch.arange(4.0)"},
        "one_with": "table",
    },
    "a parameter of two names has it": {
        "state": WEIGHT | {"table": "nn.Parameter(torch.arange(4.0))", "taken": "nn.Parameter(torch.arange(4.0))"},
        "one_with": "table",
    },
    "a frozen parameter in training": {
        "state": WEIGHT | {"frozen": "nn.Parameter(torch.rand(4, 4), requires_grad=False)"},
        "training": True,
    },
    "attributes in modules": {"state": {"block": "nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))"}},
    "whole numbers": {"state": {"n": "torch.tensor([0, 1, 0, 1])"}, "inputs": ([4],)},
    "what is written by a flag": {"state": WEIGHT | {"act": "nn.ReLU(inplace=True)"}},
    "a buffer that another name has, too": {"state": WEIGHT | {"tied": "self.w.t()"}},
    "draws": {"state": LAYERS},
    "draws of a module": {"state": LAYERS, "modes": {"drop": True}},
    "statistics of constants": {"state": LAYERS, "modes": {"norm": True}},
    "parameters in training": {"state": PARAMETER | LAYERS, "training": True},
    "layers in training": {"state": LAYERS, "training": True},
    "parameters and buffers in evaluation": {"state": PARAMETER | LAYERS},
    "what an operation returns as it came": {"state": PARAMETER | LAYERS},
    "layers in evaluation": {"state": LAYERS},
    "layers of other modes": {"state": LAYERS, "training": True, "modes": {"norm": False}},
    "sizes of an input": {"batches": [2, 1]},
    "no rows": {"inputs": ([0, 4],)},
    "double precision": {"inputs": (([4, 4], "float64"),)},
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """A case for each class, then programs in which constants, draws, writes and inputs are mixed."""
    more = {name: {"state": WEIGHT} | given for name, given in MORE.items()}
    names = [line.removeprefix("== ").rpartition(": ")[0] for line in FIXED.splitlines() if line.startswith("== ")]
    fixed = written_cases(FIXED, {name: more.get(name, {"state": WEIGHT}) for name in names})
    return fixed + [composed(random, number) for number in range(4)]


def composed(random: Random, number: int = 0) -> Case:
    """A random program that computes from weights and from its input, with draws and writes in either."""
    composer = Composer(random)
    composer.state |= PARAMETER
    composer.values += ["self.w", "self.v", "self.p"]
    for _ in range(random.randint(7, 11)):
        kind = random.random()
        if kind < 0.12:
            composer.do(composer.fill(WRITES, composer.let(f"torch.sin({composer.pick()})")))
        elif kind < 0.2:
            composer.let(composer.fill(DRAWS))
        else:
            first = random.choice(["self.w", "self.v", "self.p", None])
            composer.let(composer.fill(PURE, first))
    if random.random() < 0.3:
        composer.do("self.v.mul_(0.5)")
    results = [value for value in composer.values if not value.startswith("self.")]
    return composer.case(
        f"hidden mixture {number}",
        f"{random.choice(results)}, {' + '.join(results[-7:])}, x * 2",
        training=random.random() < 0.4,
        trap="mixture",
    )
