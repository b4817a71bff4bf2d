"""Whether two graph modules do the same in everything that a caller can observe.

This is independent of `fxopt_core.verification` on purpose: a proof must not rest on the code that it is about. Both
modules go through the same session of calls, in which the caller does what callers do: write to what they got, load
other weights, pass special values, ask for gradients.
"""

from __future__ import annotations

import copy
import io
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_flatten, tree_leaves

from autograder.traps.trap import EVENTS

LARGE = 3e38
SPECIAL = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-40, 1.0, -1.0, LARGE, 0.5)

ROUNDING = 2e-6
"""16 units in the last place of 1 in float32."""

Observation = dict[str, Any]
"""What was seen, by name: tensors as they are, anything else as something comparable."""

Step = tuple[str, Observation]
"""A step of a session, and what was seen in it."""

FLAGS = "training flags"
"""The last step of a session, which calls nothing."""


def directly(question: Callable[..., Any], *arguments: Any) -> Any:
    """`question(*arguments)`, here and now."""
    return question(*arguments)


def differences(
    original: nn.Module,
    transformed: nn.Module,
    inputs: tuple[Any, ...],
    *,
    tolerance: float = 0.0,
    state_may_change: bool = True,
    keeps_state: bool = True,
    same_state: bool = True,
    trains: bool = True,
    raises: bool = False,
    under_autocast: bool = False,
    ask: Callable[..., Any] = directly,
) -> list[str]:
    """What the two do differently, in words; nothing if they are the same.

    Args:
        original: what is right. Its state changes.
        transformed: what is to do the same. Its state changes.
        inputs: positional arguments; not changed.
        tolerance: error allowed, as a share of the largest magnitude of each tensor. Where there is one, `ROUNDING`
            is allowed, too: a tensor may be nothing but what is left of larger numbers, as in the tail of gelu.
        state_may_change: whether the caller may load other parameters and persistent buffers in between.
        keeps_state: whether the keys of `state_dict` have to stay; if not, those that stay are compared.
        same_state: whether the state has to be the same at all.
        trains: whether gradients have to reach the parameters of the original.
        raises: whether the original may raise on all inputs.
        under_autocast: whether the caller also calls both within an autocast region.
        ask: `ask(question, *arguments)` gives what `question(*arguments)` gives, for a `transformed` that is to be
            called in another process; see `session`.

    Raises:
        ValueError: the original always raises, so that nothing can be compared.
    """
    missing = persistent(original) - persistent(transformed)
    if missing and keeps_state:
        return [f"state_dict lost {sorted(missing)}"]
    names = persistent(original) - missing if same_state else set()
    every = sorted(persistent(original))
    calls = 0
    with torch.random.fork_rng(devices=[]):
        given = (inputs, sorted(names), every, tolerance, state_may_change, under_autocast)
        both = zip(session(original, *given), ask(session, transformed, *given), strict=True)
        for (step, expected), (_, found) in both:
            calls += "raised" not in expected and step != FLAGS
            if not trains:
                expected = {name: seen for name, seen in expected.items() if not name.startswith("gradient of state")}
            wrong = list(_compare(expected, found, tolerance))
            if wrong:
                return [f"{step}: {detail}" for detail in wrong]
    if not calls and not raises:
        raise ValueError("the original raises on all inputs; a trap that shows nothing is none.")
    return []


def _training_flags(module: nn.Module) -> dict[str, bool]:
    return {name: part.training for name, part in module.named_modules()}


def persistent(module: nn.Module) -> set[str]:
    """The keys of `state_dict`."""
    return set(module.state_dict(keep_vars=True))


def session(
    module: nn.Module,
    inputs: tuple[Any, ...],
    names: Sequence[str],
    every: Sequence[str],
    tolerance: float,
    state_may_change: bool,
    under_autocast: bool,
) -> Iterator[Step]:
    """What a caller sees of one module in a whole session; plain data and tensors only.

    Args:
        module: what is called. Its state changes.
        inputs: positional arguments; not changed.
        names: the keys of `state_dict` to look at.
        every: those that a caller may load other values into.
        tolerance: as for `differences`; under one, some special values tell nothing.
        state_may_change: whether the caller loads other state in the end.
        under_autocast: whether the caller also calls the module within an autocast region.
    """
    looked_at = set(names)
    modes = _training_flags(module)
    yield "first call", _call(module, fresh(inputs, None), looked_at, 1)
    yield "second call", _call(module, fresh(inputs, 2), looked_at, 2)
    # Under a tolerance sums may overflow in one order and not in another; NaN and infinities stay what they are.
    pool = tuple(value for value in SPECIAL if not tolerance or abs(value) != LARGE)
    for seed in (3, 4):
        values = fresh(inputs, seed, pool)
        yield "special values", _call(module, copy.deepcopy(values), looked_at, 3)
        few = tuple(map(_mostly_ordinary, fresh(inputs, seed), values))
        yield "a few special values", _call(module, copy.deepcopy(few), looked_at, 3)
    if not tolerance:
        zeros = fresh(inputs, 5, (0.0, -0.0))
        yield "zeros of both signs", _call(module, copy.deepcopy(zeros), looked_at, 3)
    if under_autocast:
        with torch.autocast("cpu", torch.bfloat16):
            seen = _run(module, fresh(inputs, 8), 8, autocast=True)[0]
        yield "autocast", seen
    yield "gradients", _gradients(module, fresh(inputs, 6), looked_at)
    if state_may_change:
        _load_other_state(module, set(every))
        yield "other weights loaded", _call(module, fresh(inputs, 7), looked_at, 7)
    after = _training_flags(module)
    yield FLAGS, {"switched": sorted(name for name, flag in after.items() if modes.get(name) != flag)}


def fresh(inputs: tuple[Any, ...], seed: int | None, pool: tuple[float, ...] | None = None) -> tuple[Any, ...]:
    """Copies that overlap as the originals do, with other values unless `seed` is `None`.

    Numbers with a fraction are drawn anew, or from `pool`. Integers and truth values change places: indices have to
    stay legal.
    """
    copied = copy.deepcopy(inputs)
    if seed is None:
        return copied
    generator = torch.Generator().manual_seed(seed)
    for leaf in tree_leaves(copied):
        if isinstance(leaf, torch.Tensor) and leaf.numel():
            storage = leaf.untyped_storage()
            every = torch.empty(0, dtype=leaf.dtype).set_(storage, 0, (storage.nbytes() // leaf.element_size(),), (1,))
            if not leaf.is_floating_point() and not leaf.is_complex():
                every.copy_(every[torch.randperm(every.numel(), generator=generator)])
            elif pool is None:
                every.copy_(torch.randn(every.shape, generator=generator, dtype=torch.float64))
            else:
                chosen = torch.randint(len(pool), every.shape, generator=generator)
                every.copy_(torch.tensor(pool, dtype=torch.float64)[chosen])
    return copied


def _mostly_ordinary(ordinary: Any, special: Any) -> Any:
    """The first of some twenty numbers is a special one, so that not all that is computed from them is NaN."""
    if isinstance(ordinary, torch.Tensor) and ordinary.is_floating_point() and ordinary.is_contiguous():
        ordinary.detach().view(-1)[::20] = special.detach().view(-1)[::20]
    return ordinary


def _call(module: nn.Module, inputs: tuple[Any, ...], names: set[str], seed: int) -> Observation:
    """Call the module, then write to everything that it returned, and note all that can be seen."""
    seen, leaves = _run(module, inputs, seed)
    if "raised" in seen:
        return seen | _tensors("input", tree_leaves(inputs)) | _state(module, names)
    seen |= _tensors("output", leaves) | _tensors("input", tree_leaves(inputs)) | _state(module, names)
    seen["sharing"] = _sharing(leaves, tree_leaves(inputs), module, names)
    seen["same object"] = [[one is other for one in leaves] for other in leaves]
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            seen[f"writing to output {number}"] = _write(leaf)
    after = _tensors("output", leaves) | _tensors("input", tree_leaves(inputs)) | _state(module, names)
    return seen | {f"after the caller wrote, {name}": value for name, value in after.items()}


def _run(
    module: nn.Module, inputs: tuple[Any, ...], seed: int, *, autocast: bool = False
) -> tuple[Observation, list[Any]]:
    """The leaves of the result, and what cannot be seen from them. With `autocast` they are seen, too."""
    EVENTS.clear()
    random.seed(seed)
    torch.manual_seed(seed)
    seen: Observation = {}
    leaves: list[Any] = []
    with torch.enable_grad():
        try:
            with redirect_stderr(io.StringIO()):  # where torch.fx says again what is raised
                result = module(*inputs)
            leaves, structure = tree_flatten(result)
            seen["structure"] = str(structure)
        except Exception as error:  # to raise is something that a caller sees
            seen["raised"] = type(error).__name__
        seen["modes"] = (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled())
        torch.set_autocast_enabled("cpu", autocast)
        torch.clear_autocast_cache()
    seen["events"] = list(EVENTS)
    seen["random stream"] = torch.get_rng_state()
    seen["python's random stream"] = str(hash(random.getstate()[1]))
    return seen | (_tensors("output", leaves) if autocast else {}), leaves


def _write(tensor: torch.Tensor) -> str:
    """Change a tensor in place as a caller might; what it raised, if anything."""
    with torch.no_grad():
        try:
            tensor.logical_not_() if tensor.dtype == torch.bool else tensor.add_(1)
        except RuntimeError as error:
            return type(error).__name__
    return ""


def _tensors(kind: str, leaves: list[Any]) -> Observation:
    seen: Observation = {}
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            seen[f"{kind} {number}"] = leaf.detach().clone()
            traits = (leaf.dtype, tuple(leaf.shape), leaf.stride(), leaf.requires_grad, type(leaf).__name__)
            seen[f"dtype, shape, stride, autograd, type of {kind} {number}"] = traits
        else:
            seen[f"{kind} {number}"] = (type(leaf).__name__, leaf.hex() if isinstance(leaf, float) else leaf)
    return seen


def _named(module: nn.Module) -> dict[str, torch.Tensor]:
    return dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))


def _state(module: nn.Module, names: set[str]) -> Observation:
    return {f"state {name}": tensor.detach().clone() for name, tensor in _named(module).items() if name in names}


def _sharing(outputs: list[Any], inputs: list[Any], module: nn.Module, names: set[str]) -> list[list[str]]:
    """Which outputs, inputs and parts of the state lie in one storage."""
    everything = {f"output {number}": leaf for number, leaf in enumerate(outputs)}
    everything |= {f"input {number}": leaf for number, leaf in enumerate(inputs)}
    everything |= {name: tensor for name, tensor in _named(module).items() if name in names}
    groups: dict[int, list[str]] = {}
    for name, value in everything.items():
        if isinstance(value, torch.Tensor) and value.numel():
            groups.setdefault(value.untyped_storage().data_ptr(), []).append(name)
    return sorted(sorted(group) for group in groups.values())


def _gradients(module: nn.Module, inputs: tuple[Any, ...], names: set[str]) -> Observation:
    """Gradients of all outputs with respect to all inputs and parameters."""
    given = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
    if len({leaf.untyped_storage().data_ptr() for leaf in given}) < len(given):
        return {}  # overlapping inputs are no leaves of autograd
    for leaf in given:
        leaf.requires_grad_()
    # The graph may write to its inputs, which leaves of autograd do not allow.
    flat, structure = tree_flatten(inputs)
    arguments = structure.unflatten([leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in flat])
    seen, leaves = _run(module, arguments, 6)
    results = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    sources = {f"input {number}": leaf for number, leaf in enumerate(given)}
    parameters = {name: value for name, value in module.named_parameters() if name in names and value.requires_grad}
    sources |= {f"state {name}": value for name, value in parameters.items()}
    seen["results in autograd"] = [isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves]
    if results and sources:
        weights = [(torch.arange(float(leaf.numel())).cos() + 1.5).reshape(leaf.shape).to(leaf) for leaf in results]
        try:
            found = torch.autograd.grad(results, list(sources.values()), weights, allow_unused=True)
        except RuntimeError as error:  # a saved value was written to: then it has to be so for both
            return seen | {"backward raised": type(error).__name__}
        seen |= {f"gradient of {name}": value for name, value in zip(sources, found, strict=True)}
    return seen


def _load_other_state(module: nn.Module, names: set[str]) -> None:
    """What a checkpoint does: other values for all parameters and persistent buffers."""
    with torch.no_grad():
        for name, tensor in module.state_dict(keep_vars=True).items():
            if name in names and tensor.numel():
                values = (torch.arange(float(tensor.numel())) % 5 * 0.25 + 0.5).reshape(tensor.shape)
                tensor.copy_(values.to(tensor.dtype))


def _compare(expected: Observation, found: Observation, tolerance: float) -> Iterator[str]:
    for name in expected:
        one, other = expected.get(name), found.get(name)
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            if type(one) is not type(other) or one != other:
                yield f"{name}: {other} instead of {one}"
        elif one.dtype != other.dtype or one.shape != other.shape:
            yield f"{name}: {other.dtype} {tuple(other.shape)} instead of {one.dtype} {tuple(one.shape)}"
        elif not _same_values(one, other, 1e-4 if name.startswith("gradient") else tolerance):
            yield f"{name}: other values"


def _same_values(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> bool:
    if not one.numel():
        return True
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    if not one.is_floating_point():
        return bool(torch.equal(one, other))
    same = (one == other) & (one.signbit() == other.signbit()) | one.isnan() & other.isnan()
    if bool(same.all()):
        return True
    if not tolerance:
        return False
    finite = one[one.isfinite()].double().abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    allowed = max(tolerance * scale, ROUNDING)
    return bool((same | (one == other) | ((one.double() - other.double()).abs() <= allowed)).all())


def metadata_differences(original: fx.GraphModule, transformed: fx.GraphModule, inputs: tuple[Any, ...]) -> list[str]:
    """What the nodes of the transformed graph no longer know, or know wrongly, of their values and origin."""
    wrong = []
    for key in ("val", "stack_trace"):
        if all(key in node.meta for node in _calls(original)):
            wrong += [f"{node} has lost {key}" for node in _calls(transformed) if key not in node.meta]
    graph = transformed.graph
    arguments = graph.process_inputs(*fresh(inputs, None))
    computed = _Values(transformed)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        computed.run(*arguments, enable_io_processing=False)
        torch.set_autocast_enabled("cpu", False)
    for node, value in computed.values.items():
        example = node.meta.get("val")
        if not isinstance(example, torch.Tensor) or not isinstance(value, torch.Tensor):
            continue
        if (example.dtype, example.shape) != (value.dtype, value.shape):
            wrong.append(f"{node} says {example.dtype} {tuple(example.shape)}, is {value.dtype} {value.shape}")
    return wrong


class _Values(fx.Interpreter):
    """Keeps every value."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.values: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        self.values[n] = value = super().run_node(n)
        return value


def _calls(module: fx.GraphModule) -> list[fx.Node]:
    return [node for node in module.graph.nodes if node.op.startswith("call")]
