"""Every kind of hook and override that torch lets a module, a tensor or a program carry is kept, refused, or told."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch
from torch import nn

from fxopt_core import GraphOptimizer, capture
from fxopt_core.capture import CaptureError, carried
from fxopt_core.verification import isolation

X = torch.linspace(-1, 1, 12).view(3, 4)


def tripled(*arguments: Any) -> Any:
    """A hook: three times the tensor or dictionary that it is given last, or in place."""
    value = arguments[-1]
    if isinstance(value, tuple):
        return tuple(3 * one for one in value)
    return 3 * value


def scales_checkpoint(module: nn.Module, state: dict[str, Any], *rest: Any) -> None:
    for name in list(state):
        state[name] = state[name] * 3


def scales_weights(module: nn.Module, *rest: Any) -> None:
    with torch.no_grad():
        module.weight.mul_(3)


def triples_gradient(parameter: torch.Tensor) -> None:
    parameter.grad = parameter.grad * 3


HOOKS = {
    "_forward_hooks": lambda one: one.register_forward_hook(tripled),
    "_forward_hooks_with_kwargs": lambda one: one.register_forward_hook(
        lambda module, args, kwargs, result: 3 * result, with_kwargs=True
    ),
    "_forward_hooks_always_called": lambda one: one.register_forward_hook(tripled, always_call=True),
    "_forward_pre_hooks": lambda one: one.register_forward_pre_hook(tripled),
    "_forward_pre_hooks_with_kwargs": lambda one: one.register_forward_pre_hook(
        lambda module, args, kwargs: ((3 * args[0],), kwargs), with_kwargs=True
    ),
    "_backward_hooks": lambda one: one.register_full_backward_hook(lambda module, of_inputs, of_results: None),
    "_backward_pre_hooks": lambda one: one.register_full_backward_pre_hook(tripled),
    "_state_dict_hooks": lambda one: one.register_state_dict_post_hook(scales_checkpoint),
    "_state_dict_pre_hooks": lambda one: one.register_state_dict_pre_hook(scales_weights),
    "_load_state_dict_pre_hooks": lambda one: one.register_load_state_dict_pre_hook(scales_checkpoint),
    "_load_state_dict_post_hooks": lambda one: one.register_load_state_dict_post_hook(scales_weights),
}
"""How each kind of hook of a module is registered."""

IN_THE_GRAPH = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)
"""Those whose work the graph does."""

OF_TENSORS = {
    "_backward_hooks": lambda tensor: tensor.register_hook(tripled),
    "_post_accumulate_grad_hooks": lambda tensor: tensor.register_post_accumulate_grad_hook(triples_gradient),
}

OF_ALL_MODULES = {
    "_global_forward_hooks": lambda: nn.modules.module.register_module_forward_hook(tripled),
    "_global_forward_hooks_with_kwargs": lambda: nn.modules.module.register_module_forward_hook(
        lambda module, args, kwargs, result: 3 * result, with_kwargs=True
    ),
    "_global_forward_hooks_always_called": lambda: nn.modules.module.register_module_forward_hook(
        tripled, always_call=True
    ),
    "_global_forward_pre_hooks": lambda: nn.modules.module.register_module_forward_pre_hook(tripled),
    "_global_backward_hooks": lambda: nn.modules.module.register_module_full_backward_hook(lambda *rest: None),
    "_global_backward_pre_hooks": lambda: nn.modules.module.register_module_full_backward_pre_hook(tripled),
    "_global_buffer_registration_hooks": lambda: nn.modules.module.register_module_buffer_registration_hook(
        lambda module, name, buffer: None
    ),
    "_global_module_registration_hooks": lambda: nn.modules.module.register_module_module_registration_hook(
        lambda module, name, part: None
    ),
    "_global_parameter_registration_hooks": lambda: nn.modules.module.register_module_parameter_registration_hook(
        lambda module, name, parameter: None
    ),
}


def transposed(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    state[prefix + "weight"] = state[prefix + "weight"].t()
    nn.Module._load_from_state_dict(module, state, prefix, *rest)


def saved_threefold(module: nn.Module, state: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    nn.Module._save_to_state_dict(module, state, prefix, keep_vars)
    scales_checkpoint(module, state)


OVERRIDES = {
    "_load_from_state_dict": transposed,
    "_save_to_state_dict": saved_threefold,
    "load_state_dict": lambda module, state, *rest: nn.Module.load_state_dict(
        module, {name: value * 3 for name, value in state.items()}, *rest
    ),
    "state_dict": lambda module, **options: {
        name: value * 3 for name, value in nn.Module.state_dict(module, **options).items()
    },
    "get_extra_state": lambda module: torch.ones(()),
    "set_extra_state": lambda module, state: None,
}


def module_hooks(module: nn.Module) -> set[str]:
    return {name for name, held in vars(module).items() if "hook" in name and isinstance(held, dict)}


def test_the_lists_hold_every_kind_that_torch_has():
    known = {*IN_THE_GRAPH, *carried.OF_THE_BACKWARD_PASS, carried.ON_ERRORS, *carried.OF_CHECKPOINTS}
    assert module_hooks(nn.Module()) == known == HOOKS.keys()
    of_tensors = {name for name in dir(torch.Tensor) if name.endswith("_hooks")}
    assert of_tensors == set(isolation.TENSOR_HOOKS) == OF_TENSORS.keys()
    held = vars(nn.modules.module).items()
    assert {name for name, one in held if name.startswith("_global") and isinstance(one, dict)} == OF_ALL_MODULES.keys()
    methods = {name for name in dir(nn.Module) if name.endswith(("state_dict", "_extra_state"))}
    assert methods == set(carried.METHODS_OF_CHECKPOINTS) == OVERRIDES.keys()


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))


def with_hook(name: str, place: str) -> nn.Module:
    model = plain()
    HOOKS[name](model.get_submodule(place))
    return model


def with_override(name: str) -> nn.Module:
    model = plain()
    methods = {name: OVERRIDES[name]}
    if "extra" in name:
        methods = {one: OVERRIDES[one] for one in ("get_extra_state", "set_extra_state")}
    # What these two return counts for the model alone; each of its parts is asked for the others.
    part = model if name in ("state_dict", "load_state_dict") else model[0]
    part.__class__ = type("Own", (type(part),), methods)
    return model


def with_tensor_hook(name: str) -> nn.Module:
    model = plain()
    OF_TENSORS[name](model[0].weight)
    return model


def observed(call: Any, module: nn.Module) -> list[Any]:
    """What can be seen of a model, step by step; the refusal in place of a step that is refused."""
    checkpoint = {name: value * 2 + 0.5 for name, value in plain().state_dict().items()}

    def gradients() -> list[Any]:
        call(X).sum().backward()
        return [one.grad for _, one in sorted(module.named_parameters())]

    def loaded() -> list[Any]:
        module.load_state_dict(dict(checkpoint))
        return [call(X).detach()]

    def saved() -> list[Any]:
        return [value.detach() for _, value in sorted(module.state_dict().items())]

    seen: list[Any] = []
    for step in (lambda: [call(X).detach()], gradients, saved, loaded):
        try:
            seen.append(copy.deepcopy(step()))
        except Exception as error:
            seen.append(error)
    return seen


MODELS = {
    **{
        f"{name} of {place or 'the model'}": (with_hook, name, place)
        for name in HOOKS
        for place in ("0", "")
        if place or ("state_dict_pre" not in name and "post" not in name)
    },
    **{f"override of {name}": (with_override, name) for name in OVERRIDES},
    **{f"{name} of a parameter": (with_tensor_hook, name) for name in OF_TENSORS},
}


@pytest.mark.parametrize("way", ["GraphOptimizer", "auto", "export", "dynamo"])
@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_carries_is_kept_or_refused_or_told(name, way):
    build, *arguments = MODELS[name]
    model = build(*arguments)
    wanted = observed(model, model)
    try:
        if way == "GraphOptimizer":
            call = module = GraphOptimizer(build(*arguments), (X,)).optimize("training").module
            caveats: tuple[str, ...] = ()
        else:
            captured = capture(build(*arguments), (X,), way)
            call, module, caveats = captured.run, captured.runner.module, captured.caveats
    except CaptureError:
        # No graph can keep these.
        assert name.split()[0] in (*carried.OF_THE_BACKWARD_PASS, carried.ON_ERRORS)
        return
    for step, (want, got) in enumerate(itertools.zip_longest(wanted, observed(call, module))):
        if isinstance(got, CaptureError):
            continue
        if isinstance(got, Exception):
            told = any(arguments[0] in caveat for caveat in caveats)
            assert told or type(got) is type(want), f"step {step}: {got!r} instead of {want!r}"
            continue
        torch.testing.assert_close(got, want, msg=lambda text, step=step: f"step {step}: {text}")


def test_each_of_these_hooks_and_overrides_can_be_seen():
    """So that a test that passes has seen them at work."""
    unchanged = observed(*[plain()] * 2)
    for name, (build, *arguments) in MODELS.items():
        steps = zip(observed(*[build(*arguments)] * 2), unchanged, strict=True)
        same = [repr(one) == repr(other) for one, other in steps]
        # A full backward hook may not change gradients of inputs that nobody asks for.
        assert not all(same) or name.startswith(carried.OF_THE_BACKWARD_PASS[0]), name


@pytest.mark.parametrize("name", OF_ALL_MODULES)
def test_hooks_of_all_modules_are_refused(name):
    before = GraphOptimizer(plain(), (X,)).optimize("training").module
    wanted = before(X)
    handle = OF_ALL_MODULES[name]()
    name = name.removesuffix("_with_kwargs").removesuffix("_always_called")
    try:
        for way in (lambda: capture(plain(), (X,), "auto"), lambda: GraphOptimizer(plain(), (X,))):
            with pytest.raises(CaptureError, match=name):
                way()
        if "registration" not in name:
            with pytest.raises(CaptureError, match=f"hooks of all modules: expected none.*{name}"):
                before(X)
    finally:
        handle.remove()
    torch.testing.assert_close(before(X), wanted, rtol=0, atol=0)


def test_what_torch_itself_does_to_checkpoints_is_no_reason_to_refuse():
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), nn.BatchNorm1d(4)).eval()
    module = GraphOptimizer(model, (X,)).optimize("training").module
    checkpoint = {name: value + 1 for name, value in model.state_dict().items()}
    model.load_state_dict(checkpoint)
    module.load_state_dict(checkpoint)
    torch.testing.assert_close(module(X), model(X))


class ClipsGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-10, 10)


class Saturates(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.saved_tensors[0].abs() <= 1)


@pytest.mark.parametrize("preset", ["training", "inference"])
@pytest.mark.parametrize("function", [ClipsGradient, Saturates])
def test_a_backward_pass_of_its_own_is_not_taken_for_autograds(function, preset):
    """On small values and small cotangents both agree, which is all that a trial sees."""

    def model(x):
        return function.apply(x * 1)

    x = (torch.arange(4.0) - 2) * 30
    result = GraphOptimizer(model, (torch.full((4,), 0.1),)).optimize(preset)
    assert result.report.method == "dynamo"
    assert any(
        "calls ClipsGradient.apply" in one.failure or "calls Saturates.apply" in one.failure
        for one in result.report.attempts
    )
    wanted, got = (
        torch.autograd.grad((call(given) * 1000).sum(), given)[0]
        for call, given in ((one, x.clone().requires_grad_()) for one in (model, result.module))
    )
    assert got.equal(wanted)


@pytest.mark.parametrize("method", ["export", "symbolic_trace"])
def test_a_graph_that_has_lost_it_says_so(method):
    captured = capture(lambda x: ClipsGradient.apply(x) * 2, (torch.ones(3),), method)
    assert not captured.has_gradients
    assert captured.run(torch.ones(3)).tolist() == [2.0] * 3


def test_the_functions_of_torch_itself_differentiate_as_autograd_does():
    def model(x):
        return torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=True)

    assert capture(model, (torch.ones(3),), "export").has_gradients
