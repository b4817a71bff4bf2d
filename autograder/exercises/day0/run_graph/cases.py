"""Hidden cases of run_graph: one for each class, and random programs of operations of every kind."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.exchange.evidence import Case
from autograder.exercises.day0.run_graph.visible import LAYER, program

STATE = LAYER | {"scaled": "Scaled(4)", "count": "torch.zeros(1)", "picked": "Picked()"}
FORKS = "\n".join(f"a{i + 1} = torch.sin(a{i}) + torch.cos(a{i})" for i in range(24))

FIXED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "methods with arguments",
        "a = x.view(2, 2, 2).transpose(1, 2).reshape(2, -1)\nb = a.sum(dim=1, keepdim=True).expand(-1, 4)\n"
        "c = x.sub(y, alpha=2).clamp(min=-0.5)\nreturn c.mul(b).add(other=y), b.masked_fill(c > 0, 0.25)",
        {},
    ),
    (
        "slices and indices",
        "n = x.size(1)\na = x[:, : n - 1]\nb = x[[0, 1, 0]]\nc = x[0, 1]\nd = y[..., None].squeeze(-1)\n"
        "return a.sum() + c, b, d[:, n - 2], x[1:, ::2], y[[0, 1], [3, 2]]",
        {},
    ),
    (
        "nested arguments",
        "a = torch.cat([torch.stack((x, y)), torch.stack([y, x])], dim=2)\nb, c = torch.split(x, [1, 3], dim=1)\n"
        "d = torch.einsum('ij,kj->ik', [x, y])\nreturn a.sum(0), torch.where(x > 0, input=x, other=y), c + b, d",
        {},
    ),
    (
        "nested keywords",
        "n = x.size(1)\na = torch.cat(tensors=[x, y], dim=1)\nb = torch.einsum('ij,kj->ik', x, y)\n"
        "return a, torch.stack(tensors=(b, b.t()), dim=n - 4), torch.kl_div(input=x, target=y.abs()), "
        "torch.where(other=y, input=x, condition=x > 0)",
        {},
    ),
    (
        "nested arguments of methods",
        "n = x.size(1)\na = x.reshape((n, -1))\nreturn a, x.index_put((y > 0,), y.sum()), x.sum(dim=(n - 3,))",
        {},
    ),
    (
        "nested keywords of methods",
        "n = x.size(1)\na = x.index_put(indices=[x > 0], values=y.sum())\n"
        "return a, y.sum(dim=[n - 4, n - 3]), x.permute(dims=(n - 3, 0))",
        {},
    ),
    (
        "nested arguments of modules",
        "a = self.block.picked({'first': x, 'others': [y, x * 2.0]})\n"
        "return a, self.block.picked({'first': a, 'others': (a, y)})",
        {},
    ),
    (
        "nested keywords of modules",
        "n = x.size(0)\na = self.block.picked(parts={'first': x, 'others': (y, y)}, named={'less': x * 0.5})\n"
        "b = self.block.picked(parts={'first': y, 'others': [x, a]}, named={'less': y}, rows=slice(n - 1, n))\n"
        "return a + y, b",
        {},
    ),
    (
        "methods of what is no tensor",
        "s = x.size()\nn = s.numel()\nreturn x * n + s.count(4), y.view(s)",
        {},
    ),
    ("an input that comes late", "a = torch.sin(x)\nb = self.block.scale * a\nreturn b + y, a - x", {"late": True}),
    (
        "modules with keywords, called twice",
        "a = self.block.scaled(x, by=2.0)\nb = self.block.scaled(y, other=a)\nc = self.block.scaled(a, b, by=-1.0)\n"
        "return c - a, self.block.layer(input=b), self.block.layer(c)",
        {},
    ),
    (
        "hooks",
        "a = self.block.layer(x)\nreturn self.block.layer(self.block.drop(a + y)), a",
        {"hooked": ("block.layer",), "state": STATE | {"drop": "nn.Dropout(0.5)"}},
    ),
    (
        "writes that nobody reads",
        "x.t()[0].fill_(0.5)\ny[0].zero_()\nself.block.count.mul_(2.0).add_(3.0)\na = torch.exp(x)\nb = a\nb += 1.0\n"
        "return a + y",
        {},
    ),
    ("a write at the end", "a = x * 2.0\ny.mul_(0.5)\nreturn a", {}),
    ("slices of nodes", "n = y.size(0)\na = torch.cat([x, y])\nreturn a[n - 1 :: n], a[: n + 1 : n], a[n:]", {}),
    ("a write that two read", "c = self.block.count.add_(1.0)\nreturn x * c + c, c * 1.0, c.neg() * y", {}),
    (
        "names that mislead",
        "a = self.block.sin(x)\nb = torch.relu(self.block.x(y))\nc = self.block.output * a\nreturn torch.sin(b) - c",
        {
            "state": {
                "sin": "nn.Linear(4, 4)",
                "x": "nn.Tanh()",
                "output": "nn.Parameter(torch.randn(4))",
                "placeholder": "torch.zeros(1)",
            }
        },
    ),
    (
        "a module within a module, under two names",
        "a = getattr(self.block.deep, '1').weight * x\nb = self.block.deep(a) * getattr(self.block.again, '1').weight\n"
        "return b + getattr(self.block.deep, '0')(y) + getattr(self.block.again, '0')(x) * self.block.again(y)",
        {"state": {"deep": "nn.Sequential(nn.Linear(4, 4), Scaled(4))", "again": "deep"}},
    ),
    (
        "a buffer that a module replaces",
        "a = x + self.block.counting.count\nb = self.block.counting(y)\nc = self.block.counting.count * a\n"
        "return b + self.block.counting(c), self.block.counting.count",
        {"state": {"counting": "Counting()"}},
    ),
    ("a dictionary", "return {'a': [x * 2, (y, 1)], 'n': x.size(0), 'none': None, 'x': x}", {}),
    ("inputs returned", "return y, x, y", {}),
    ("one input, one result in a tuple", "return (x * 2.0,)", {"shapes": ((2, 4),)}),
    (
        "three inputs, one of them a number",
        "a = torch.sin(z)\nreturn y * a - x, z",
        {"shapes": ((2, 4), None, (2, 4))},
    ),
    ("a check that fails", "torch._assert(x.sum() > 1e9, 'too small')\nreturn x + y", {}),
    (
        "attributes that are no tensors",
        "a = x.clamp(max=self.block.limit).reshape(self.block.sizes)\nreturn a * y.sum(), torch.clamp(y, None, 0.25)",
        {"state": {"limit": "0.5", "sizes": "(4, -1)"}},
    ),
    ("the second input alone", "return y * 2.0", {}),
    ("creations", "a = torch.ones(4) * x\nb = torch.arange(4)\nreturn torch.full((4,), 0.5) + a * b, b", {}),
    (
        "dtypes",
        "a = x > 0\nb = a.long().cumsum(dim=0)\nreturn b, x.double() * y, a | (y > 0), y.int(), b.float() * x",
        {},
    ),
    (
        "draws",
        "a = torch.rand_like(x)\ntorch.rand_like(x)\nb = self.block.drop(y)\nc = torch.nn.functional.dropout(x, 0.5)\n"
        "d = torch.rand_like(y)\ntorch.rand_like(x)\nreturn c * a, b, d",
        {"state": {"drop": "nn.Dropout(0.5)"}, "training": True},
    ),
    (
        "draws in another order than they are read",
        "a = torch.rand_like(x)\nb = torch.rand_like(x)\nreturn b * 2.0, a * 3.0 + b",
        {},
    ),
    (
        "batch statistics",
        "self.block.norm(x)\nreturn self.block.norm(y) + x",
        {"state": {"norm": "nn.BatchNorm1d(4)"}, "training": True},
    ),
    (
        "switched gradients",
        "a = torch.sin(x)\ntorch._C._set_grad_enabled(False)\nb = torch.cos(x)\ntorch._C._set_grad_enabled(True)\n"
        "return a + b, torch.sin(y), b",
        {},
    ),
    ("many forks", f"a0 = x\n{FORKS}\nreturn a24 + y", {}),
    ("no rows", "a = torch.cat([x, y], dim=0)\nreturn a.sum(dim=0), self.block.layer(a)", {"shapes": ((0, 4), (0, 4))}),
)
"""Name, lines and further entries of a case for each class, the same for every seed but for their numbers."""

PURE = (
    "torch.tanh({0})", "{0}.abs()", "{0}.clamp(min=-0.5)", "torch.softmax(input={0}, dim=0)",
    "torch.sub({0}, other={1}, alpha=2)", "{0} * self.block.scale", "self.block.layer({0})", "{0}[[1, 0]]",
    "self.block.scaled({0}, by=0.5)", "self.block.scaled({0}, other={1})", "torch.cat([{0}, {1}], dim=1)[:, 1:5]",
    "torch.stack(({0}, {1})).mean(dim=0)", "{0}.transpose(0, 1).reshape(2, -1)", "{0}.sub({1}, alpha=0.5)",
    "{0}[:, : {1}.size(1)]", "torch.where({0} > 0, {0}, {1})", "{0} * torch.ones(4)", "{0}.flip((0, 1))",
)  # fmt: skip
"""Expressions of one or two matrices of 2 × 4, which give another one."""

WRITES = ("{0}.mul_(0.5)", "{0}[0].zero_()", "{0}.t()[1].fill_(0.25)", "self.block.count.add_({0}.sum().detach())")


def hidden_cases(random: Random) -> list[Case]:
    """A case for each class, then random programs in which operations of every kind are mixed with writes."""
    fixed = [
        program(f"hidden {name}", body, seed=random.randrange(2**31), **{"state": STATE} | more)
        for name, body, more in FIXED
    ]
    return fixed + [composed(random, number) for number in range(3)]


def composed(random: Random, number: int = 0) -> Case:
    """A random program."""
    lines, values = list[str](), ["x", "y"]
    for _ in range(random.randint(4, 9)):
        first, second = random.choice(values), random.choice([*values, *values[-2:]])
        if random.random() < 0.2:
            lines.append(f"w{len(lines)} = torch.sin({first})")
            lines.append(random.choice(WRITES).format(f"w{len(lines) - 1}"))
            values.append(f"w{len(lines) - 2}")
        else:
            values.append(f"v{len(lines)}")
            lines.append(f"{values[-1]} = {random.choice(PURE).format(first, second)}")
    returned = random.sample(values, random.randint(1, 3))
    lines.append(f"return {', '.join(returned)}")
    return program(f"hidden {number}", "\n".join(lines), state=STATE, seed=random.randrange(2**31))
