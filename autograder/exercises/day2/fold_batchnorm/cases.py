"""Hidden cases of fold_batchnorm: a case for each class, drawn ones, and networks that mix pairs with look-alikes."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.exchange.evidence import Case
from autograder.exercises.composed import written_cases
from autograder.exercises.day2.programs import program

PAIR = {"conv": "nn.Conv2d(4, 4, 3)", "norm": "nn.BatchNorm2d(4, eps=0.1)", "act": "nn.ReLU()"}

FIXED = """
== double precision: fold
return self.norm(self.conv(x)) - self.norm(self.bare(x))

== two pairs, one norm: fold
return self.norm(self.other(self.act(self.norm(self.conv(x)))))

== the norm evaluates, the graph trains: fold
return self.norm(self.conv(x))

== the norm trains, the graph evaluates: fold
return self.norm(self.conv(x))

== returned before the norm: fold
h = self.conv(x)
return self.norm(h), [h]

== the result is written in between: fold
h = self.conv(x)
h.mul_(2.0)
return self.norm(h)

== a norm without a convolution: fold
return self.norm(x) + self.norm(self.act(x))

== misleading names: fold
return self.norm2(self.conv2(x)) + self.norm(self.conv2(x))

== the input by keyword: fold
return self.norm(input=self.conv(input=x))

== the input by keyword, padding that reflects: fold
return self.norm(input=self.reflect(input=x))

== padding that reflects: fold
return self.norm(self.reflect(x)) + self.norm(self.replicate(x))

== padding that goes round: fold
return self.norm(self.circular(x))

== padding that keeps the size: fold
return self.norm(self.same(x))

== dilated and strided: fold
return self.norm(self.dilated(x))

== depthwise, without weights of the norm: fold
return self.plain(self.deep(x))

== two norms of one convolution: fold
h = self.conv(x)
return self.norm(h) + self.second(h)

== what stays comes first: fold
h = self.conv(x)
a = self.norm(self.act(x)).sum() + self.norm(h) - h
return a * self.norm(self.other(x))

== a convolution that nobody reads: fold
h = self.conv(x)
return self.norm(self.other(x))

== one name after the other is taken: fold
return self.taken_too(self.taken(self.norm(self.conv(x))))

== names that are taken: fold
a = self.norm(self.conv(x))
return self.norm_folded(a) + self.conv_folded(a)

== layers of another number of dimensions: fold
return self.line_norm(self.line(x[:, :, 0])).sum() + self.norm(self.conv(x))

== normalisations that look alike: fold
return self.instance(self.conv(x)) + self.group(self.other(x)) - self.norm(self.conv3(x))

== blocks: fold
return self.block(x)

== one convolution at two paths: fold
return self.norm(self.conv(x)) + self.second(self.conv(x * 2)), self.third(self.conv(x - 1))

== one row, another size: fold
return self.norm(self.conv(x)), x

== a write between, into another value: fold
h = self.conv(x)
g = x * 2
g.add_(1.0)
return self.norm(h) + g.sum()

== in a list: fold
h = self.norm(self.conv(x))
return [h, {'h': h.relu(), 'x': x}]

== nothing to fold: fold
return self.act(x)
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

IMAGE = ([2, 4, 6, 6],)
MORE: dict[str, dict[str, Any]] = {
    "double precision": {
        "inputs": (([2, 4, 6, 6], "float64"),),
        "state": {
            "conv": "nn.Conv2d(4, 4, 3).double()",
            "bare": "nn.Conv2d(4, 4, 3, bias=False).double()",
            "norm": "nn.BatchNorm2d(4, eps=0.1).double()",
        },
    },
    "two pairs, one norm": {"state": PAIR | {"other": "nn.Conv2d(4, 4, 1, bias=False)"}},
    "the norm evaluates, the graph trains": {"training": True, "modes": {"norm": False, "conv": True}},
    "the norm trains, the graph evaluates": {"modes": {"norm": True}},
    "misleading names": {"state": PAIR | {"norm2": "nn.Conv2d(4, 4, 1)", "conv2": "nn.AvgPool2d(1)"}},
    "what stays comes first": {"state": PAIR | {"other": "nn.Conv2d(4, 4, 3)"}},
    "a convolution that nobody reads": {"state": PAIR | {"other": "nn.Conv2d(4, 4, 3)"}},
    "one name after the other is taken": {
        "state": PAIR | {"taken": "nn.Conv2d(4, 4, 1)", "taken_too": "nn.Conv2d(4, 4, 1)"},
        "at_new_names": ["taken", "taken_too"],
    },
    "the input by keyword, padding that reflects": {
        "state": PAIR | {"reflect": "nn.Conv2d(4, 4, 3, padding=1, padding_mode='reflect')"}
    },
    "padding that reflects": {
        "state": PAIR
        | {
            "reflect": "nn.Conv2d(4, 4, 3, padding=1, padding_mode='reflect')",
            "replicate": "nn.Conv2d(4, 4, 3, padding=1, padding_mode='replicate')",
        }
    },
    "padding that goes round": {
        "state": PAIR | {"circular": "nn.Conv2d(4, 4, (3, 5), padding=(1, 2), padding_mode='circular')"}
    },
    "padding that keeps the size": {"state": PAIR | {"same": "nn.Conv2d(4, 4, 4, padding='same')"}},
    "dilated and strided": {"state": PAIR | {"dilated": "nn.Conv2d(4, 4, 2, stride=2, dilation=2)"}},
    "depthwise, without weights of the norm": {
        "state": {"deep": "nn.Conv2d(4, 8, 3, groups=4)", "plain": "nn.BatchNorm2d(8, affine=False, eps=0.2)"}
    },
    "two norms of one convolution": {"state": PAIR | {"second": "nn.BatchNorm2d(4)"}},
    "names that are taken": {
        "state": PAIR | {"norm_folded": "nn.Tanh()", "conv_folded": "nn.Conv2d(4, 4, 1)"},
    },
    "layers of another number of dimensions": {
        "state": PAIR | {"line": "nn.Conv1d(4, 4, 3)", "line_norm": "nn.BatchNorm1d(4)"}
    },
    "normalisations that look alike": {
        "state": PAIR
        | {
            "instance": "nn.InstanceNorm2d(4, affine=True, track_running_stats=True)",
            "group": "nn.GroupNorm(2, 4)",
            "other": "nn.Conv2d(4, 4, 3)",
            "conv3": "nn.Conv2d(4, 4, 3, bias=False)",
        }
    },
    "blocks": {
        "state": {
            "block": "nn.Sequential(nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)), nn.ReLU(), "
            "nn.Conv2d(6, 2, 1, bias=False), nn.BatchNorm2d(2, eps=0.2, momentum=None))"
        }
    },
    "one convolution at two paths": {
        "state": PAIR | {"second": "nn.BatchNorm2d(4)", "third": "nn.BatchNorm2d(4, eps=0.3)"},
        "paths": {"conv_1": "again", "conv_2": "block.conv"},
    },
    "one row, another size": {"inputs": ([1, 4, 3, 5],), "batches": [3]},
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """A case for each class, then drawn ones, and networks in which pairs stand among what only looks like one."""
    fixed = written_cases(FIXED, MORE, state=PAIR, inputs=IMAGE)
    return [*drawn_cases(random), *fixed, *(composed(random, number) for number in range(3))]


LAYERS = {
    "c0": "nn.Conv2d(4, 4, 3, padding=1)",
    "c1": "nn.Conv2d(4, 4, 1, bias=False)",
    "c2": "nn.Conv2d(4, 4, 3, padding=1, groups=2, padding_mode='circular')",
    "t0": "nn.ConvTranspose2d(4, 4, 1)",
    "n0": "nn.BatchNorm2d(4, eps=0.1)",
    "n1": "nn.BatchNorm2d(4, affine=False, eps=0.2)",
    "n2": "nn.BatchNorm2d(4, track_running_stats=False)",
    "n3": "nn.BatchNorm2d(4)",
    "act": "nn.SiLU()",
}
"""Layers that fit behind one another in any order; `n3` is in training."""

FORMS = (
    "self.{norm}(self.{conv}({0}))", "self.{norm}(self.{conv}({0}))", "self.act(self.{norm}(self.{conv}({0})))",
    "self.{norm}(self.act(self.{conv}({0})))", "self.{norm}({0} * 2)", "self.{conv}({0})", "{0} - {1}",
    "torch.maximum({0}, {1})", "self.{norm}(self.t0({0}))", "self.{norm}(input=self.{conv}({0}))",
)  # fmt: skip


def composed(random: Random, number: int = 0) -> Case:
    """A random network: pairs, convolutions and norms that stand alone, layers called again, values read again."""
    values, lines = ["x"], []
    for i in range(random.randint(5, 9)):
        form, names = random.choice(FORMS), {"norm": f"n{random.choice([0, 0, 0, 1, 2, 3])}"}
        first, second = random.choice(values[-2:]), random.choice(values)
        lines.append(f"v{i} = {form.format(first, second, conv=f'c{random.randrange(3)}', **names)}")
        values.append(f"v{i}")
    lines.append(f"return {values[-1]}, {random.choice(values[1:])} + {values[-2]}")
    given: dict[str, Any] = {"state": LAYERS, "inputs": ([2, 4, 5, 5],), "modes": {"n3": True}}
    return program(f"hidden mixture {number}", "\n".join(lines), trap="fold", seed=random.randrange(2**31), **given)


def drawn_cases(random: Random) -> list[Case]:
    """Random widths, kernel sizes and eps in every kind of place."""
    cases = []
    for trap in ("plain", "missing weights", "training", "read twice", "branches", "shared", "written input"):
        width, eps = 2 * random.randint(2, 4), round(random.uniform(0.05, 0.3), 3)
        convolution = f"nn.Conv2d(4, {width}, {random.choice([1, 2, 3])}"
        convolution += (
            f", groups={random.choice([1, 2])}, bias={trap != 'missing weights'}, stride={random.choice([1, 2])})"
        )
        norm = f"nn.BatchNorm2d({width}, eps={eps})"
        state = {"conv": convolution, "norm": norm, "act": random.choice(["nn.ReLU()", "nn.GELU()", "nn.Sigmoid()"])}
        body = "return self.act(self.norm(self.conv(x)))"
        if trap == "read twice":
            body = "h = self.conv(x)\nreturn self.act(self.norm(h)), h.sum()"
        elif trap == "branches":
            state["other"] = convolution
            body = "a = self.conv(x)\nb = self.other(x)\nreturn self.act(a) + self.norm(b)"
        elif trap == "shared":
            body = "return self.act(self.norm(self.conv(x))) + self.conv(x * 2)"
        elif trap == "written input":
            factor = round(random.uniform(2, 4), 2)
            body = f"h = self.conv(x)\nx.mul_({factor})\nreturn self.act(self.norm(h)) + x.sum()"
        seed = random.randrange(2**31)
        cases.append(
            program(
                f"hidden {trap}",
                body,
                state=state,
                inputs=((2, 4, 6, 6),),
                training=trap == "training",
                trap=trap,
                seed=seed,
            )
        )
    return cases
