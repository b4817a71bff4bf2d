"""Hidden cases of merge_duplicates: one for each class, and programs whose lines come again."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.exchange.evidence import Case
from autograder.exercises.composed import DRAWS, WRITES, Composer, written_cases

ON = "torch._C._set_grad_enabled(True)"
OFF = "torch._C._set_grad_enabled(False)"
AUTOCAST = 'm = torch.amp.autocast_mode._enter_autocast("cpu", torch.bfloat16, True, False)'
FORKS = "\n".join(
    f"a{i + 1} = torch.sin(a{i}) + torch.cos(a{i})\nb{i + 1} = torch.sin(b{i}) + torch.cos(b{i})" for i in range(14)
)
WEIGHT = {"w": "torch.rand(4, 4)", "p": "nn.Parameter(torch.rand(4, 4))"}
LAYERS = {"one": "nn.Linear(4, 4)", "other": "nn.Linear(4, 4)"}

FIXED = f"""
== signs of zero: literals
return torch.atan2(x * 0.0, x - 3) - torch.atan2(x * -0.0, x - 3), x.abs() * 0.0

== zeros that are added: literals
return torch.add(x, 0.0), torch.add(x, -0.0), x * 2, x * 2.0

== whole numbers: literals
return x + 1, x + 1.0, x + True, x * 1, x // 1

== truth values: literals
return (x + 1).sum(), (x + True).float(), (x * 1).abs(), x & True

== literals by keyword: literals
return torch.add(x, other=1) * 2, torch.add(x, other=1.0) * 2

== the same number, made twice: twice
a = x * float('0.1')
b = x * float('0.1')
c = x / float('nan')
d = x / float('nan')
return a.sin() + b.cos(), c.neg() + d.abs()

== literals in lists: literals
return x[[1, 0, 1, 1]].sum(), x[[True, False, True, True]].sum()

== equal checks: effects
torch._assert(x.size(0) > 0, 'no rows')
torch._assert(x.size(0) > 0, 'no rows')
return x.sin()

== slices: slices
a = x[1:].sin()
b = x[1:].sin()
c = x[1:, 0].sum()
d = x[:1].sin()
return a - b.cos() + c + d

== slices with steps: slices
a = x[::2].sin()
b = x[::3].sin()
c = x[::2].sin()
return a - b.cos() + c.neg() + x[:, ::2].sum() - x[:, ::3].sum()

== slices that begin or end elsewhere: slices
a = x[0:2].sin()
b = x[1:2].sin()
c = x[1:3].sin()
return a - b.cos() + c.neg()

== slices with sizes: slices
n = x.size(0)
m = x.size(0)
a = x[: n - 1]
b = x[: m - 1]
return a.sin() * b.sin().cos()

== slices with sizes, in a list: slices
n = x.size(0)
m = x.size(0)
a = x[[slice(0, n - 1), 0]]
b = x[[slice(0, m - 1), 0]]
return a.sin() * b.sin().cos()

== lists and tuples: containers
return x[[0, 1]].sum() + x[0, 1] + x[[1, 0]].sum(dim=1).sum() * x[1, 0]

== a slice and a tuple of its numbers: slices
a = x[1:2:3].sum()
b = x[1, 2, 3]
return a - b.cos()

== containers in containers: containers
a = torch.stack([x, y])
b = torch.stack([y, x])
c = torch.stack((x, y))
return a - b, c.sum()

== three of a kind: twice
a = torch.sin(x)
b = torch.sin(x)
c = torch.sin(x)
return a.cos() + b.neg() * c.abs()

== four, the first and the third are written: written
a = torch.sin(x)
b = torch.sin(x)
c = torch.sin(x)
d = torch.sin(x)
a.mul_(2.0)
c.neg_()
return a.cos() + b.neg() * c.abs() - d

== three, two are returned: returned
a = torch.sin(x)
b = torch.sin(x)
c = torch.sin(x)
return b, a.cos(), c

== three, the last is returned: returned
a = torch.sin(x)
b = torch.sin(x)
c = torch.sin(x)
return a.cos() + b.neg(), c

== three, the first and the last are returned: returned
a = torch.sin(x)
b = torch.sin(x)
c = torch.sin(x)
return a, b.cos(), c

== four, two are returned: returned
a = torch.sin(x)
b = torch.sin(x)
c = torch.sin(x)
d = torch.sin(x)
return a, b, c.cos() + d.neg()

== returned as views: returned
a = torch.sin(x)
b = torch.sin(x)
return a.t(), b.view(-1), torch.sin(x).sum()

== returned in a dictionary: returned
a = torch.sin(x)
b = torch.sin(x)
return {{'a': [a], 'b': (b, 1)}}

== switched gradients: switch
a = x.sin().cos()
{OFF}
b = x.sin().cos()
c = x.sin().neg()
{ON}
d = x.sin().cos()
return a * d + b + c

== switched autocast: switch
a = x @ x
{AUTOCAST}
b = x @ x
c = (x @ x).float()
torch.amp.autocast_mode._exit_autocast(m)
return a.sum() + (x @ x).neg().sum(), b.neg(), c

== the unknown between: unknown
h = x * 2
a = h.tanh()
b = h.tanh()
h.detach_()
c = h.tanh()
d = h.tanh()
return a.neg() * b.cos(), c.neg() * d.cos()

== the unknown about another value: unknown
a = x.sin()
b = x.sin()
y.is_shared()
c = x.cos()
d = x.cos()
return a.neg() * b + c.neg() * d

== a check between: between
a = x.sin()
torch._assert(x.size(0) > 0, 'no rows')
b = x.sin()
return a.neg() * b

== a draw between: between
a = x.sin()
n = torch.rand_like(x)
b = x.sin()
return a.neg() * b + n

== draws of each kind: draws
a = F.dropout(x, 0.5, True).neg()
b = F.dropout(x, 0.5, True).neg()
c = F.dropout(x, 0.5, False).neg()
d = F.dropout(x, 0.5, False).neg()
return a - b.cos() + c.cos() - d + torch.bernoulli(x.sigmoid()) - torch.bernoulli(x.sigmoid()).cos()

== draws that read nothing: draws
a = torch.rand(4, 4)
b = torch.rand(4, 4)
return a - b.cos()

== creations: twice
a = torch.ones(4, 4)
b = torch.ones(4, 4)
c = torch.ones(4)
return x * a.sin() + b.sin().cos() - c

== a write between, into what views are of: write between
h = x * 2
v = h[0]
w = h.t()
a = v.exp()
b = w.sin()
h.add_(1.0)
c = v.exp()
d = w.sin()
return a - c, b * d.cos()

== a write between, into a weight of a layer: write between
a = self.one(x).sin()
self.one.weight.mul_(0.5)
b = self.one(x).sin()
return a - b

== writes by flag: write between
h = x * 2
a = h.cos()
F.relu(h, inplace=True)
b = h.cos()
return a - b

== writes by out: write between
h = x * 2
a = h.cos()
torch.sin(x, out=h)
b = h.cos()
return a - b

== writes by a module: write between
h = x * 2
a = h.cos()
self.act(h)
b = h.cos()
return a - b

== writes by +=: write between
h = x * 2
a = h.cos()
g = h
g += 1.0
b = h.cos()
return a - b

== a buffer is written: write between
a = self.w.sin()
self.w.mul_(0.5)
b = self.w.sin()
return x @ a - x @ b

== an input is written: write between
a = x.sin()
b = x.sin()
x.neg_()
c = x.sin()
d = x.sin()
return a.cos() * b + c.cos() * d

== equal writes: write between
h = x * 2
h.add_(1.0)
h.add_(1.0)
return h

== written through two views: written
a = x.sin()
b = x.sin()
c = b.t()[1:]
c[:, ::2].fill_(3.0)
return a.cos() + b

== two layers of equal weights: modules
return self.one(x) - self.other(x).neg() + self.one(x).cos() - self.same(x)

== modules with misleading names: modules
return self.relu(x) + self.tanh(x) + torch.relu(x) + self.relu(x).neg() + x.relu() * 2 - x.tanh() * 3

== a layer in evaluation, the graph in training: one module
return self.drop(x) * self.drop(x).cos() + self.norm(x).neg() * self.norm(x)

== a layer in training, the graph in evaluation: training
return self.drop(x) * self.drop(x).cos() + self.norm(x).neg() * self.norm(x)

== functions with one name: names
s = x.sum()
a = torch.floor(s)
b = torch.math.floor(s)
c = torch.floor(s)
d = torch.math.pow(s, 2)
e = s**2
return x.long() + a, x.long() + b, c.neg(), x * d, e.neg()

== functions, methods, modules of one meaning: twice
a = torch.relu(x)
b = x.relu()
c = self.act(x)
d = F.relu(x)
return a - b + c - d + x.relu().cos() + torch.relu(x).neg() + self.act(x).sin() + F.relu(x).exp()

== other keywords: keywords
a = F.softmax(x, dim=0)
b = F.softmax(x, dim=1)
c = torch.sum(x, dim=0)
d = torch.sum(x, dim=0, keepdim=True)
return a - b + c - d.cos() + F.softmax(x, dim=0).neg()

== other keywords of one value: keywords
a = torch.clamp(x, min=0.5)
b = torch.clamp(x, max=0.5)
return a.sin() - b.cos()

== other dtypes: keywords
a = x.to(dtype=torch.float64)
b = x.to(dtype=torch.float16)
return a.sin(), b.sin(), x.sum(dtype=torch.float64), x.sum()

== other order of arguments: keywords
return torch.sub(x, y) + torch.sub(y, x) * torch.sub(x, y).cos() + torch.sub(x, y, alpha=2)

== several results: twice
a = torch.max(x, dim=0)
b = torch.max(x, dim=0)
c, d = torch.split(x, 2, dim=1)
e, f = torch.split(x, 2, dim=1)
return a[0] - b[0].cos() + a[1] + c.sum() - d.sum() * e.sum().cos() + f.sum().sin()

== not even read: twice
a = x.sin()
b = x.sin()
return a

== nothing to compute: nothing
return x

== nothing to merge: nothing
a = x.sin()
return a.cos() + a.neg()

== many forks: levels
a0 = x.sin()
b0 = x.sin()
{FORKS}
return a14 * b14.cos()

== without inputs: twice
a = torch.ones(4, 4)
b = torch.ones(4, 4)
return a.sin() + b.cos()

== a layer at a path that was given to both calls: one module
a = self.one(x).sin()
b = self.one(x).sin()
return a - b.cos()

== weights: twice
a = self.w.sin() * self.p
b = self.w.sin() * self.p
return x @ a - x @ b.neg()

== double precision, no rows: twice
a = x.sin()
b = x.sin()
return a * b.cos()
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "truth values": {"inputs": (([4], "bool"),)},
    "the unknown about another value": {"two": True},
    "switched autocast": {"trained": False},  # sums of gradients in half precision depend on their order
    "whole numbers": {"inputs": (([4], "int64"),)},
    "literals by keyword": {"inputs": (([4], "int64"),)},
    "literals in lists": {"inputs": (([4, 4], "int64"),)},
    "a write between, into a weight of a layer": {"state": LAYERS, "trained": False},
    "slices with sizes": {"batches": [2]},
    "slices with sizes, in a list": {"batches": [2]},
    "a slice and a tuple of its numbers": {"inputs": ([4, 4, 4],)},
    "containers in containers": {"two": True},
    "writes by a module": {"state": {"act": "nn.ReLU(inplace=True)"}},
    "a buffer is written": {"state": WEIGHT},
    "two layers of equal weights": {"state": LAYERS | {"same": "self.one"}},
    "modules with misleading names": {"state": {"relu": "nn.Tanh()", "tanh": "nn.ReLU()"}},
    "a layer in evaluation, the graph in training": {
        "state": {"norm": "nn.BatchNorm1d(4)", "drop": "nn.Dropout(0.5)"},
        "training": True,
        "modes": {"norm": False, "drop": False},
    },
    "a layer in training, the graph in evaluation": {
        "state": {"norm": "nn.BatchNorm1d(4)", "drop": "nn.Dropout(0.5)"},
        "modes": {"norm": True, "drop": True},
    },
    "functions with one name": {"trained": False},  # a number has no gradient
    "functions, methods, modules of one meaning": {"state": {"act": "nn.ReLU()"}},
    "other order of arguments": {"two": True},
    "without inputs": {"arguments": "", "inputs": ()},
    # The two texts are equal, and not the same object.
    "a layer at a path that was given to both calls": {"state": LAYERS, "paths": {"one": "again", "one_1": "again"}},
    "weights": {"state": WEIGHT},
    "double precision, no rows": {"inputs": (([0, 4], "float64"),)},
}
"""Further entries of these cases; `two` for a second input."""


def hidden_cases(random: Random) -> list[Case]:
    """A case for each class, then programs in which parts are computed again among writes, draws and switches."""
    cases = written_cases(FIXED, MORE)
    return cases + [composed(random, number) for number in range(4)]


def composed(random: Random, number: int = 0) -> Case:
    """A random program whose lines come again: at once, later, in another order, after a write or a switch."""
    composer = Composer(random, ("x", "y"))
    composer.compute(2)
    for _ in range(random.randint(6, 10)):
        again = random.random()
        made = [line.partition(" = ")[2] for line in composer.lines if " = " in line]
        if again < 0.5:
            composer.let(random.choice(made))
        elif again < 0.65:
            composer.do(composer.fill(WRITES, composer.let(f"torch.sin({composer.pick()})")))
        elif again < 0.75:
            composer.let(composer.fill(DRAWS))
        elif again < 0.8:
            composer.do(composer.fill(("torch._assert({0}.size(0) > 1, 'too few')", "{0}.is_shared()")))
        else:
            composer.compute()
    if random.random() < 0.5:
        switch = random.randrange(2, len(composer.lines))
        composer.lines[switch:switch] = [OFF]
        composer.lines.append(ON)
    returned = ", ".join(composer.random.choices(composer.values[2:], k=3))
    return composer.case(f"hidden mixture {number}", f"{returned}, {' + '.join(composer.values[-6:])}", trap="mixture")
