"""Which kernels run: seen in PyTorch, on an operator whose kernels write down their names and go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from random import Random
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet
from torch.library import Library

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u3.predict_kernels.visible import Call, call, in_words, tensor

MISCONCEPTIONS = {
    "asked PyTorch": (
        "Your function asks PyTorch. Predict it: that is what you want to be able to do when you read an error."
    ),
    "not names": "Return a list of the names of kernels, in the order in which they run.",
    "requires_grad decides": (
        "`requires_grad` changes no key. The autograd kernel runs for every ordinary tensor, and finds out itself "
        "whether there is anything to record."
    ),
    "one inference tensor decides": (
        "One inference tensor takes nothing away from the others: the keys of all tensors are united, so a single "
        "ordinary tensor brings its autograd key along."
    ),
    "no_grad decides": (
        "`no_grad` changes no key. It sets a flag, and the autograd kernel, which runs all the same, reads it."
    ),
    "inference_mode ignored": (
        "Within `inference_mode` the thread excludes the autograd keys: their kernel does not run."
    ),
    "inference_mode removes too much": (
        "Within `inference_mode` the thread no longer *includes* ADInplaceOrView, but does not exclude it. A tensor "
        "that was made outside still carries the key, so its kernel runs."
    ),
    "made inside ignored": (
        "A tensor that was made inside `inference_mode` carries neither an autograd key nor ADInplaceOrView. Where "
        "all tensors are like that, no autograd kernel runs, not even outside the block."
    ),
    "thread's ADInplaceOrView forgotten": (
        "Outside `inference_mode` the thread includes ADInplaceOrView. Its kernel runs also for tensors that do not "
        "carry the key."
    ),
    "views are new tensors": (
        "A view has the keys of its base: of an ordinary tensor also a view that was taken inside `inference_mode` is "
        "an ordinary one. A clone is a new tensor, and belongs to where it was made."
    ),
    "clones are like views": (
        "A clone is a new tensor. What it was copied from does not matter: it belongs to where the clone was made."
    ),
    "autocast always": "Outside an `autocast` block the thread excludes AutocastCPU, although tensors carry the key.",
    "autocast for all devices": (
        "Only tensors on the CPU carry AutocastCPU. Where all are on meta there is no such key."
    ),
    "blocks not nested": (
        "The innermost block decides: `inference_mode(False)` within `inference_mode`, and `autocast` switched off "
        "within `autocast`, bring back the usual state. And the other way round."
    ),
    "vmap always": (
        "Only where a tensor is *batched* does it carry FuncTorchBatched. `vmap` around other tensors changes nothing."
    ),
    "vmap ends the walk": (
        "The batching kernel unwraps its tensors and calls the operator again on them: below it comes everything that "
        "would run without `vmap`."
    ),
    "vmap in the wrong place": "FuncTorchBatched is the highest of these keys: its kernel is the first to run.",
    "autocast by the backend": (
        "`AutocastCPU` belongs to no backend that the highest one could hide: any tensor on the CPU brings it along, "
        "also where another tensor is on meta."
    ),
    "first tensor only": "The keys of *all* tensors count, not only those of the first.",
    "parts not joined": (
        "Layout and device are found apart: sparse is above strided and meta above CPU, wherever they come from. "
        "Sparse on the CPU together with strided on meta makes `SparseMeta`."
    ),
    "autograd of the first device": (
        "The autograd key takes the highest device, too: where one of the tensors is on meta it is `AutogradMeta`."
    ),
    "wrong order": "These are the right kernels in another order: the highest key runs first.",
    "wrong kernels": "Other kernels run in PyTorch.",
}

SPACE = "fxopt_u3_predict"


def hidden_cases(random: Random) -> list[Case]:
    """One case for each rule that is easily forgotten, then random calls."""
    inside, meta, sparse = tensor(made="inside"), tensor("meta"), tensor(layout="sparse")
    fixed = {
        "inference tensors": [
            call(inside),
            call(inside, tensor()),
            call(inside, tensor(), blocks=("inference_mode",)),
            call(inside, blocks=("inference_mode",)),
            call(tensor("meta", made="inside"), blocks=("no_grad",)),
            call(tensor(layout="sparse", made="inside")),
            call(tensor(), blocks=("no_grad",)),
        ],
        "views and clones": [
            call(tensor(made="view inside")),
            call(tensor(made="view inside"), blocks=("inference_mode",)),
            call(tensor(made="clone inside")),
            call(tensor(made="clone inside"), blocks=("inference_mode",)),
            call(tensor(made="clone outside")),
        ],
        # Asked for there, gradients change no key either.
        "gradients asked for inside": [
            call(inside),
            call(tensor(made="inside", requires_grad=True)),
            call(tensor("meta", made="inside", requires_grad=True), blocks=("autocast",)),
            call(tensor(made="inside", requires_grad=True), blocks=("inference_mode",)),
            call(tensor(made="clone inside", requires_grad=True)),
            call(tensor(made="view inside", requires_grad=True)),
        ],
        "autocast": [
            call(meta, blocks=("autocast",)),
            call(meta, tensor(), blocks=("autocast",)),
            call(inside, blocks=("autocast",)),
            call(sparse, blocks=("autocast", "no_grad")),
            call(tensor(), blocks=("autocast", "inference_mode")),
        ],
        "blocks in blocks": [
            call(tensor(), blocks=("inference_mode", "inference_mode off")),
            call(tensor(), blocks=("inference_mode off", "inference_mode")),
            call(tensor(), blocks=("autocast", "autocast off")),
            call(tensor(), blocks=("autocast off", "autocast")),
            call(inside, blocks=("inference_mode", "inference_mode off")),
            call(tensor(requires_grad=True), blocks=("inference_mode", "no_grad", "inference_mode off", "autocast")),
        ],
        "vmap": [
            call(tensor(), blocks=("vmap",)),
            call(tensor(), tensor(batched=True), blocks=("vmap",)),
            call(tensor(batched=True), tensor(), blocks=("vmap",)),
            call(tensor(made="inside", batched=True), blocks=("vmap",)),
            call(tensor("meta"), tensor(batched=True), blocks=("vmap", "no_grad")),
            call(tensor(batched=True), blocks=("inference_mode", "vmap")),
            call(inside, blocks=("vmap", "inference_mode")),
            call(tensor(requires_grad=True, batched=True), blocks=("vmap",)),
        ],
        "several tensors": [
            call(sparse, meta),
            call(meta, sparse),
            call(tensor(), tensor(), meta, tensor()),
            call(tensor("meta", made="inside"), tensor()),
            call(tensor("meta", "sparse"), tensor()),
            call(inside, inside, meta, blocks=("inference_mode",)),
        ],
    }
    cases = [Case(name, {"calls": calls}) for name, calls in fixed.items()]
    drawn = [[random_call(random) for _ in range(12)] for _ in range(3)]
    return cases + [Case(f"random {number}", {"calls": calls}) for number, calls in enumerate(drawn)]


def random_call(random: Random) -> Call:
    """One to three tensors, and up to three blocks."""
    within_vmap = random.random() < 0.3
    tensors = []
    for _ in range(random.randint(1, 3)):
        made = random.choice(["outside", "outside", "inside", "view inside", "clone inside", "clone outside"])
        layout = "strided" if within_vmap or made not in ("outside", "inside") else random.choice(["strided", "sparse"])
        one = tensor(random.choice(["cpu", "cpu", "meta"]), layout, made)
        one["requires_grad"] = made == "outside" and random.random() < 0.4
        one["batched"] = within_vmap and random.random() < 0.5
        tensors.append(one)
    choices = ["no_grad", "inference_mode", "inference_mode off"]
    choices += [] if within_vmap else ["autocast", "autocast off"]
    blocks = [random.choice(choices) for _ in range(random.randint(0, 3))]
    if within_vmap:
        blocks.insert(random.randint(0, len(blocks)), "vmap")
    return call(*tensors, blocks=tuple(blocks))


class Operator:
    """An operator of which every kernel writes down its name and goes on."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.library = Library(SPACE, "DEF")
        self.library.define("tell(Tensor[] tensors) -> ()")
        self.operator = torch.ops.fxopt_u3_predict.tell.default
        for key in ("CPU", "Meta", "SparseCPU", "SparseMeta"):
            self._enter(key, lambda keys, tensors: None)
        self._enter("ADInplaceOrView", self._goes_on(DispatchKey.ADInplaceOrView))
        self._enter("Autograd", self._goes_on(DispatchKey.AutogradOther))
        self._enter("AutocastCPU", self._goes_on(DispatchKey.AutocastCPU))
        self._enter("FuncTorchBatched", self._unwraps)

    def _enter(self, key: str, kernel: Callable[..., None]) -> None:
        def run(keys: DispatchKeySet, tensors: Any) -> None:
            self.log.append(keys.highestPriorityTypeId().name)
            kernel(keys, tensors)

        self.library.impl("tell", run, key, with_keyset=True)

    def _goes_on(self, key: DispatchKey) -> Callable[..., None]:
        below = torch._C._dispatch_keyset_full_after(key)
        return lambda keys, tensors: self.operator.redispatch(keys & below, tensors)

    def _unwraps(self, keys: DispatchKeySet, tensors: Any) -> None:
        level = torch._C._functorch.maybe_current_level()
        assert level is not None
        with torch._C._ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.FuncTorchBatched)):
            self.operator([torch._C._functorch._unwrap_batched(one, level)[0] for one in tensors])

    def kernels(self, one: Call) -> list[str]:
        """The kernels that run for a call."""
        self.log.clear()
        made = [_made(described) for described in one["tensors"]]
        self._within(one["blocks"], made, [described["batched"] for described in one["tensors"]])
        return list(self.log)

    def _within(self, blocks: list[str], tensors: list[torch.Tensor], batched: list[bool]) -> None:
        with ExitStack() as stack:
            for number, block in enumerate(blocks):
                if block == "vmap":
                    rest = blocks[number + 1 :]

                    self._mapped(rest, tensors, batched)
                    return
                stack.enter_context(_block(block))
            self.operator(tensors)

    def _mapped(self, blocks: list[str], tensors: list[torch.Tensor], batched: list[bool]) -> None:
        pairs = list(zip(tensors, batched, strict=True))

        def inner(x: torch.Tensor, *slices: torch.Tensor) -> torch.Tensor:
            given = iter(slices)
            self._within(blocks, [next(given) if is_slice else one for one, is_slice in pairs], batched)
            return x

        torch.func.vmap(inner)(torch.ones(2), *(one for one, is_slice in pairs if is_slice))


def _block(name: str) -> AbstractContextManager[Any]:
    blocks: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "no_grad": torch.no_grad,
        "inference_mode": torch.inference_mode,
        "inference_mode off": lambda: torch.inference_mode(False),
        "autocast": lambda: torch.autocast("cpu"),
        "autocast off": lambda: torch.autocast("cpu", enabled=False),
    }
    return blocks[name]()


def _made(described: dict[str, Any]) -> torch.Tensor:
    def new() -> torch.Tensor:
        found = torch.ones(2, 2)
        return (found.to_sparse() if described["layout"] == "sparse" else found).to(described["device"])

    how, asks = described["made"], described["requires_grad"]
    if how == "outside":
        return new().requires_grad_(asks)
    if how in ("view inside", "clone inside"):
        outside = new().requires_grad_(asks)
        with torch.inference_mode():
            return outside.view(2, 2) if how == "view inside" else outside.clone()
    with torch.inference_mode():
        inside = new().requires_grad_(asks)
    return inside if how == "inside" else inside.clone()


@cache
def _operator() -> Operator:
    return Operator()


@cache
def _seen(call_as_json: str) -> tuple[str, ...]:
    return tuple(_operator().kernels(json.loads(call_as_json)))


def by_pytorch(one: Call) -> list[str]:
    """The kernels that run for a call, in PyTorch."""
    return list(_seen(json.dumps(one)))


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind each wrong prediction, once each."""
    said: set[str] = set()
    answers = list(zip(case.parameters["calls"], evidence.values["answers"], strict=True))
    # Whoever is right about such a call does not ask for `requires_grad`.
    knows = any(found == by_pytorch(one) for one, found in answers if _nothing_asks(one))
    inside = any(found == by_pytorch(one) for one, found in answers if _made_inside(one) and not _asks(one))
    first = all(found == by_pytorch(_of_the_first(one)) for one, found in answers)
    for one, found in answers:
        wanted = by_pytorch(one)
        if found == wanted:
            continue
        name = "not names" if found is None else _named(one, found, wanted)
        if name == "requires_grad decides" and knows and found == _by_inference(one):
            name = "one inference tensor decides"
        if name == "made inside ignored" and inside and _asks(one):
            name = "requires_grad decides"
        if name == "first tensor only" and not first:
            name = "wrong kernels"
        if name not in said:
            said.add(name)
            told = " → ".join(found) or "none" if found is not None else "no list"
            yield name, f"({in_words(one)}: found {told}, wanted {' → '.join(wanted)})"
    if not said and evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"


def _nothing_asks(one: Call) -> bool:
    """Whether the autograd kernel runs for a call although no tensor asks for gradients."""
    return not _asks(one) and any(kernel.startswith("Autograd") for kernel in by_pytorch(one))


def _asks(one: Call) -> bool:
    return any(described["requires_grad"] for described in one["tensors"])


def _made_inside(one: Call) -> bool:
    return not one["blocks"] and all(described["made"] == "inside" for described in one["tensors"])


def _of_the_first(one: Call) -> Call:
    return {"tensors": one["tensors"][:1], "blocks": one["blocks"]}


def _by_inference(one: Call) -> list[str] | None:
    """What somebody expects who takes a call for one on inference tensors as soon as one of them is; else `None`."""
    inside = [described["made"] in ("inside", "clone inside") for described in one["tensors"]]
    if not any(inside) or all(inside):
        return None
    return by_pytorch({**one, "tensors": [{**described, "made": "inside"} for described in one["tensors"]]})


def _named(one: Call, found: list[str], wanted: list[str]) -> str:
    """The first of the other calls that PyTorch answers as the learner answered this one says what was overlooked."""
    if sorted(found) == sorted(wanted):
        return "vmap in the wrong place" if "FuncTorchBatched" in found else "wrong order"
    if found == ["FuncTorchBatched"]:
        return "vmap ends the walk"
    for name, other in _overlooking(one):
        if found == _alternative(name, other):
            return name
    return "wrong kernels"


def _overlooking(one: Call) -> Iterator[tuple[str, Call]]:
    """The call that somebody sees who overlooks something."""
    tensors, blocks = one["tensors"], one["blocks"]

    def changed(what: str, value: Any) -> Call:
        return {"tensors": [{**described, what: value} for described in tensors], "blocks": blocks}

    def replaced(**by: str) -> Call:
        made = [
            {**described, "made": by.get(described["made"].replace(" ", "_"), described["made"])}
            for described in tensors
        ]
        return {"tensors": made, "blocks": blocks}

    def without(*names: str) -> Call:
        return {"tensors": tensors, "blocks": [block for block in blocks if block not in names]}

    yield "thread's ADInplaceOrView forgotten", one
    yield "inference_mode removes too much", one
    yield "autograd of the first device", one
    if any(described["made"].startswith("view") for described in tensors):
        yield "views are new tensors", replaced(view_inside="inside")
    if any(described["made"].startswith("clone") for described in tensors):
        yield "clones are like views", replaced(clone_inside="outside", clone_outside="inside")
    if len([block for block in blocks if block.startswith("inference_mode")]) > 1:
        for block in ("inference_mode", "inference_mode off"):
            yield "blocks not nested", without(block)
    if len([block for block in blocks if block.startswith("autocast")]) > 1:
        for block in ("autocast", "autocast off"):
            yield "blocks not nested", without(block)
    if "inference_mode" in blocks:
        yield "inference_mode ignored", without("inference_mode")
    yield "made inside ignored", changed("made", "outside")
    if "no_grad" in blocks:
        yield "no_grad decides", {"tensors": tensors, "blocks": [*blocks, "inference_mode"]}
        yield "no_grad decides", one
    if any(not described["requires_grad"] for described in tensors):
        yield "requires_grad decides", one
    yield "autocast always", {"tensors": tensors, "blocks": [*blocks, "autocast"]} if "vmap" not in blocks else one
    yield "autocast for all devices", one
    if "vmap" in blocks:
        yield "vmap always", changed("batched", True)
    yield "autocast by the backend", one
    yield "parts not joined", one
    if len(tensors) > 1:
        yield "first tensor only", _of_the_first(one)


def _alternative(name: str, other: Call) -> list[str] | None:
    """The kernels that somebody expects who makes a mistake; `None` where it makes no difference."""
    wanted = by_pytorch(other)
    autograd = [kernel for kernel in wanted if kernel.startswith("Autograd")]
    first = other["tensors"][0]
    match name:
        case "thread's ADInplaceOrView forgotten" | "inference_mode removes too much":
            inference = "inference_mode" in other["blocks"]
            if inference != (name == "inference_mode removes too much"):
                return None
            return [kernel for kernel in wanted if kernel != "ADInplaceOrView"]
        case "autograd of the first device":
            own = "AutogradCPU" if first["device"] == "cpu" else "AutogradMeta"
            return [own if kernel in autograd else kernel for kernel in wanted]
        case "requires_grad decides":
            return [kernel for kernel in wanted if kernel not in autograd]
        case "no_grad decides":
            return [kernel for kernel in wanted if kernel not in autograd]
        case "autocast for all devices":
            return ["AutocastCPU", *wanted] if "autocast" in other["blocks"] and "AutocastCPU" not in wanted else None
        case "autocast by the backend":
            mixed = {one["device"] for one in other["tensors"]} == {"cpu", "meta"}
            return [kernel for kernel in wanted if kernel != "AutocastCPU"] if mixed else None
        case "parts not joined":
            kinds = [
                ("Sparse" if one["layout"] == "sparse" else "") + {"cpu": "CPU", "meta": "Meta"}[one["device"]]
                for one in other["tensors"]
            ]
            highest = max(kinds, key=["CPU", "Meta", "SparseCPU", "SparseMeta"].index)
            return [*wanted[:-1], highest]
    return wanted
