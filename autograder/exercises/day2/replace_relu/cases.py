"""Hidden cases of replace_relu: each form, a case for each class, and programs that mix all forms."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.exchange.evidence import Case
from autograder.exercises.composed import DRAWS, Composer, written_cases
from autograder.exercises.day2.programs import program

FORMS = {
    "functions": ["torch.relu({0})", "F.relu({0})", "F.relu({0}, inplace=False)", "F.relu({0}, False)"],
    "methods": ["{0}.relu()", "({0} * 2).relu()"],
    "modules": ["self.act({0})", "self.block[1]({0})"],
    "keyword": [
        "F.relu(input={0})",
        "torch.relu(input={0})",
        "F.relu(inplace=False, input={0})",
        "self.act(input={0})",
    ],
}
WRITING = [
    "{0}.relu_()", "torch.relu_({0})", "F.relu({0}, inplace=True)", "F.relu_({0})", "self.inside({0})",
    "F.relu({0}, True)", "torch.relu_(input={0})", "F.relu(input={0}, inplace=True)",
]  # fmt: skip
OTHER = [
    "F.relu6({0} * 4)", "self.six({0} * 4)", "self.leaky({0})", "F.elu({0})", "torch.tanh({0})", "self.relu({0})",
    "torch.clamp({0}, min=0.0)", "{0}.sigmoid()", "F.silu({0})",
]  # fmt: skip
ACTS = {
    "act": "nn.ReLU()",
    "inside": "nn.ReLU(inplace=True)",
    "tanh": "nn.ReLU()",
    "relu": "nn.Tanh()",
    "block": "nn.Sequential(nn.Linear(4, 4), nn.ReLU())",
    "six": "nn.ReLU6()",
    "leaky": "nn.LeakyReLU(0.2)",
}

FIXED = """
== misleading names: forms
a = F.rrelu(x) + F.threshold(x, 0.0, 0.0) - x.prelu(torch.full((1,), 0.3))
return self.relu(x) + self.tanh(x) - self.relu(F.leaky_relu(x, 0.0)) + a

== functions that are merely called like one: forms
h = x - 1
a = F.softsign(h) + F.tanhshrink(h)
return a - torch.relu(h), F.tanhshrink(F.relu(a)), F.softsign(h), h

== other functions of one meaning: forms
return torch.clamp(x, min=0.0) + torch.maximum(x, torch.zeros(4)) - x.clamp_min(0.0) + F.hardtanh(x, 0.0) + x.relu()

== one module in place, called twice: forms
h = x * 2
g = self.inside(h)
self.inside(g)
return h - 1, g

== in place on a view: forms
h = x * 2
h[1:].relu_()
F.relu(h.t()[0], inplace=True)
return h, x

== in place, read before and after: forms
h = x - 1
a = h.cos()
torch.relu_(h)
b = h.cos()
return a - b, F.relu(a), h

== nobody reads it: forms
h = x * 2
torch.relu(h)
h.relu_()
return h

== in a list and several times: forms
a = torch.relu(x)
return [a, {"b": F.relu(a)}], torch.cat([a, a.relu(), torch.relu(a)]), a

== deep blocks: forms
return self.block(x)

== training: forms
return self.act(self.norm(x)) + F.dropout(x, 0.5, True).relu()

== double precision: forms
return torch.relu(x) - x.relu() + F.relu(x)

== no rows: forms
return torch.relu(x), self.act(x)

== no ReLU at all: forms
return F.silu(x)

== the flag by position: forms
h = x * 2
F.relu(h, True)
return F.relu(x, False) + x, h - x

== flags that say no: forms
h = x * 2
a = F.relu(h, inplace=False)
b = F.relu(h, False)
return h - a, b * h

== a method whose input is read again: forms
h = x - 1
a = h.relu()
return a + h * h, h

== functions and modules whose input is read again: forms
h = x - 1
a = torch.relu(h) - F.relu(h)
b = self.act(h)
return a + h * b, h

== the same write twice: forms
h = x - 1
h.relu_()
g = x.neg()
g.relu_()
h.sub_(0.5)
h.relu_()
return h, g

== writes whose input is given by name: forms
h = x - 1
g = x + 1
k = x * 2
torch.relu_(input=h)
F.relu(input=g, inplace=True)
self.inside(input=k)
return h, g.cos(), self.act(input=k - 1), k

== every form that writes: forms
a, b, c, d = x - 1, x - 2, x * 2, x * 3
e = x * 4
a.relu_()
torch.relu_(b)
F.relu(c, inplace=True)
self.inside(d)
F.relu_(e)
return a, b, c, d, e

== a write through an output that is read: forms
h = x - 1
g = h.relu_()
return g.cos(), h.t()

== names that are taken: forms
a = self.silu(x)
return self.act(a) - self.silu_1(a), torch.relu(x) * self.new

== modules that are nearly one: forms
return self.slope(x) + self.threshold(x) + self.tanh(x), self.hard(x) - self.celu(x)

== modules inside modules: forms
a = self.block.inner.act(x)
return a, self.block.inner.relu(a), self.block.act(x - 1)

== inputs and weights that are called like one: forms
return torch.relu(relu) + self.relu_, self.relu_ * relu

== one module at two paths: forms
h = x * 2
a = self.act(x) - self.act(x + 1)
self.inside(h)
b = h - 1
self.inside(b)
return a, h, b, self.tanh(a) - self.tanh(h)

== its input is written afterwards: forms
h = x - 1
a, b, c, d = torch.relu(h), F.relu(h), h.relu(), self.act(h)
h.sub_(0.5)
return a, b, c, d, h

== the memory of its input is read again: forms
h = x - 1
a = F.relu(h.view(-1))
b = h[1:].relu()
c = self.act(h.t())
return a, b, c, h

== what nobody reads, and what is there twice: forms
h = x - 1
h.cos()
torch.relu(h)
self.leaky(h)
F.softplus(h).exp()
return h * torch.relu(x) - torch.relu(x), self.act(x) + self.act(x)

== every argument by keyword: forms
h = x * 2
F.relu(h, inplace=True)
g = x - 1
return F.relu(g) - g, h

== nodes that have other names: forms
self.state.relu_()
a = torch.sigmoid(x) - 0.6
b = torch.relu(a) + F.relu(self.other_state)
return a.tanh() - a.relu(), b, self.state - x

== a draw beside it: forms
a = F.dropout(x, 0.5, True).relu()
return a + torch.rand_like(a), F.relu(F.rrelu(x, training=True))
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "functions that are merely called like one": {"own": True},
    "deep blocks": {"state": {"block": "nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.ReLU6()))"}},
    "training": {"state": ACTS | {"norm": "nn.BatchNorm1d(4)"}, "training": True},
    "double precision": {"inputs": (([4, 4], "float64"),)},
    "no rows": {"inputs": ([0, 4],)},
    "names that are taken": {
        "state": {"act": "nn.ReLU()", "silu": "nn.Tanh()", "silu_1": "nn.Sigmoid()", "new": "torch.rand(4)"}
    },
    "modules that are nearly one": {
        "state": {
            "slope": "nn.LeakyReLU(0.0)",
            "threshold": "nn.Threshold(0.0, 0.0)",
            "hard": "nn.Hardtanh(0.0, 9.0)",
            "celu": "nn.CELU()",
            "tanh": "nn.ReLU()",
        }
    },
    "the flag by position": {"positional": True},
    "inputs and weights that are called like one": {
        "arguments": "relu",
        "state": {"relu_": "torch.rand(4, 4)"},
    },
    "every argument by keyword": {"named": True},
    "nodes that have other names": {
        "renamed": {"relu": "first", "relu_1": "second", "relu_2": "tanh_", "sigmoid": "relu", "tanh": "relu_3"},
        "state": {"state": "torch.randn(4, 4)", "other_state": "torch.randn(4, 4)"},
    },
    "one module at two paths": {"paths": {"act_1": "again", "inside_1": "blocks.0", "tanh_1": "relu"}},
    "modules inside modules": {
        "state": {
            "block": "nn.ModuleDict({'inner': nn.ModuleDict({'act': nn.ReLU(), 'relu': nn.Tanh()}), 'act': nn.ReLU()})"
        },
    },
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """Each form among others, forms that write with a later reader, a case for each class, then random programs."""
    bodies = {}
    for name, forms in FORMS.items():
        inner, outer = random.choice(OTHER).format("x"), random.choice(forms).format("h")
        shift = random.uniform(0.1, 0.5)
        bodies[name] = f"h = {inner} - {shift:.3f}\nreturn {outer} + {random.choice(forms).format('x')}"
    first, second = random.sample(WRITING, 2)
    bodies["in place"] = f"h = x * 2\ng = h.view(-1)\n{first.format('h')}\n{second.format('x')}\nreturn g, h - 1"
    bodies["look-alikes"] = f"return {' + '.join(form.format('x') for form in OTHER)} - F.relu(x)"
    drawn = [
        program(f"hidden {name}", body, state=ACTS, trap="forms", seed=random.randrange(2**31))
        for name, body in bodies.items()
    ]
    fixed = written_cases(FIXED, MORE, state=ACTS)
    return [*drawn, *fixed, *(composed(random, number) for number in range(3))]


def composed(random: Random, number: int = 0) -> Case:
    """A random program: every form among what only looks like it, forms that write, draws, dead ends."""
    composer = Composer(random, ("x", "y"))
    composer.state |= ACTS
    every = [form for forms in FORMS.values() for form in forms]
    for _ in range(random.randint(6, 10)):
        kind = random.random()
        if kind < 0.4:
            composer.let(composer.fill(every))
        elif kind < 0.6:
            composer.do(composer.fill(WRITING, composer.let(f"torch.sin({composer.pick()})")))
        elif kind < 0.8:
            composer.let(composer.fill(OTHER))
        elif kind < 0.85:
            composer.let(composer.fill(DRAWS))
        else:
            composer.compute()
    returned = ", ".join(random.sample(composer.values, 3))
    return composer.case(f"hidden mixture {number}", f"{returned}, x - 1", training=random.random() < 0.3, trap="forms")
