"""A captured graph as a module: called as the model is called, with the model's state under the model's names."""

from __future__ import annotations

import copy
import io
import pickle
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import fx, nn
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.utils._pytree import TreeSpec, tree_leaves, tree_structure

from fxopt_core.capture.baked import BakedTensors
from fxopt_core.capture.call_signature import CallSignature, TensorFacts
from fxopt_core.capture.carried import lost_gradients, own_checkpoints, persistent_names
from fxopt_core.capture.conditions import unmet_condition
from fxopt_core.capture.errors import CaptureError, RefusedInputError
from fxopt_core.capture.questions import MODES, modes_now
from fxopt_core.graphs.cloning import clone_graph_module
from fxopt_core.verification.modes import unwound

_GUARDS = "_guards_fn"
_UNCHANGING = (TreeSpec, CallSignature)
"""What copies share; pytree's specifications warn of themselves when they are copied."""

_OF_EXPORT = ("train", "eval", "validate_inputs", "range_constraints", "shape_env")


class StoredGraphModule(fx.GraphModule):
    """A graph module that can be copied and pickled with all that it holds.

    torch's own traces the generated code anew when it is loaded, which few graphs of operators survive, and a copy of
    it loses what the graph does not read.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> StoredGraphModule:
        copied = clone_graph_module(self)
        memo[id(self)] = copied
        for name, value in vars(self).items():
            if name != "_graph":
                vars(copied)[name] = value if isinstance(value, _UNCHANGING) else copy.deepcopy(value, memo)
        return copied  # type: ignore[return-value]

    def __reduce__(self) -> tuple[Any, ...]:
        """The graph as bytes and the rest as it is, so that `torch.save` stores the tensors.

        Raises:
            pickle.PicklingError: the graph has open sizes, whose checks torch keeps as code that has no name.
        """
        if hasattr(self, _GUARDS):
            raise pickle.PicklingError(
                "a graph whose sizes may vary cannot be pickled: its checks of sizes are code without a name. Save the "
                "model and optimise it again after loading, save the graph of fixed sizes (leave dynamic out), or save "
                "it as a program with fxopt_workbench.standalone.save_standalone."
            )
        state = {name: value for name, value in vars(self).items() if name not in ("_graph", "_code", "_lineno_map")}
        own = next(one for one in type(self).__mro__ if one.__qualname__.count("<locals>") == 0)
        return _restored, (own, _encoded(self.graph), state)


class _ChecksExports:
    """For a code generator: `torch.export` runs a graph module node by node, and gives its inputs to this, not to
    `forward`.

    Attributes:
        accept: gives the arguments of a call for which the graph holds; see `CapturedModule._accepted`.
    """

    generates_plain_code = True
    """The function that it writes is that of the class below it: whoever reads the graph needs no other."""

    accept: weakref.WeakMethod[Any] | None = None

    def process_inputs(self, *inputs: Any) -> Any:
        """The inputs of the graph."""
        accept = self.accept() if self.accept is not None and torch.compiler.is_exporting() else None
        if accept is not None:
            args, kwargs = accept(inputs, {})
            inputs = (*args, *kwargs.values())
        return super().process_inputs(*inputs)  # type: ignore[misc]

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to one module."""
        return {name: value for name, value in vars(self).items() if name != "accept"}


class _Flat(_ChecksExports, fx.graph.CodeGen):
    """Of a graph that takes the arguments as they are."""


class _Nested(_ChecksExports, fx.graph._PyTreeCodeGen):
    """Of a graph that takes the leaves of the arguments."""


class CapturedModule(StoredGraphModule):
    """The graph of a model, called as the model is called. Its parameters and buffers have the model's names.

    A call of another form than the captured one is refused (`RefusedInputError`). Training and evaluation mode, dtype
    and device are part of the graph, so the module cannot be switched or moved: convert the model, and capture again.

    Attributes:
        call_signature: the form of the calls that the graph holds for.
        baked: the model's parameters, buffers and other tensors whose values may have gone into constants of the graph.
        lost_gradients: what the model does in the backward pass and the graph does not, in words.
        own_checkpoints: what the model does to its checkpoints and this module does not, in words.
    """

    call_signature: CallSignature
    baked: BakedTensors
    lost_gradients: str
    own_checkpoints: str
    _modes: dict[str, bool]

    def recompile(self) -> Any:
        """Make `forward` anew from the graph. It checks the call, and then runs the graph.

        Every way to call the module comes through `forward`: also a compiled one, an exported one, and that of a module
        around it. It raises `RefusedInputError` where the graph does not hold for the call, as where a size or a value
        that was read at capture leads to another decision now.
        """
        checks = {fx.graph.CodeGen: _Flat, fx.graph._PyTreeCodeGen: _Nested}
        codegen: Any = copy.copy(self.graph._codegen)
        codegen.__class__ = checks.get(type(codegen), type(codegen))
        codegen.accept = weakref.WeakMethod(self._accepted)
        self.graph.set_codegen(codegen)
        code = super().recompile()
        run = type(self).forward

        @wraps(run)
        def forward(self: CapturedModule, *args: Any, **kwargs: Any) -> Any:
            if not (torch.compiler.is_dynamo_compiling() and not kwargs and self._plainly_fits(args)):
                args, kwargs = self._accepted(args, kwargs)
            if torch.compiler.is_compiling():
                # Whoever traces this has conditions and errors of its own.
                return run(self, *args, **kwargs)
            with unwound():
                try:
                    return run(self, *args, **kwargs)
                except (RuntimeError, AssertionError, ArithmeticError) as error:
                    inputs = dict(zip(self.call_signature.names, tree_leaves((args, kwargs)), strict=True))
                    if unmet := unmet_condition(error, self, getattr(self, _GUARDS, None), inputs):
                        raise unmet from error
                    raise

        type(self).forward = forward
        return code

    def _plainly_fits(self, args: tuple[Any, ...]) -> bool:
        """Whether Dynamo, which traces this, guards all that the graph takes for granted: then it need not end here.

        It guards a tensor's dtype, device, sizes and strides and torch's modes, but not how tensors overlap.
        """
        plain = self._plain
        if plain is None or len(args) != 1 or type(args[0]) is not torch.Tensor or not self._fits_modes():
            return False
        for name, mode in self._modes.items():
            if self.get_submodule(name).training is not mode:
                return False
        (one,) = args
        return plain == (one.dtype, one.device, tuple(one.shape), one.stride()) and one.layout == torch.strided

    @torch.compiler.assume_constant_result
    def _fits_modes(self) -> bool:
        return modes_now(()) == self.call_signature.modes

    @property
    def _plain(self) -> tuple[Any, ...] | None:
        """Of a graph that takes one tensor and asks nothing else of it: what this must be. Of any other: nothing."""
        signature = self.call_signature
        facts = signature.leaves[0] if len(signature.leaves) == 1 and signature.positional == 1 else None
        asks = signature.dynamic or any(signature.answers.values()) or signature.modes.keys() & MODES.keys()
        if not isinstance(facts, TensorFacts) or asks or facts.dtype.is_complex or facts.layout != torch.strided:
            return None
        nested = signature.structure != tree_structure(((0,), {}))
        return None if nested else (facts.dtype, facts.device, facts.shape, facts.stride)

    @torch.compiler.disable(reason="fxopt checks at each call whether its graph holds for it")
    def _accepted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call for which the graph holds. Dynamo ends its graph here, and so each call is checked.

        Raises:
            RefusedInputError: the graph does not hold for this call, or the tracer would leave the check behind.
        """
        tracers = {"torch.jit.trace": torch.jit.is_tracing(), "torch.fx": fx._symbolic_trace.is_fx_symbolic_tracing()}
        for tracer, active in tracers.items():
            if active:
                advice = "Trace the model itself, use torch.export or torch.compile, or read the graph of this module."
                raise RefusedInputError(
                    "the call", "one with tensors", f"a trace by {tracer}, which checks no call", advice
                )
        if torch._C._functorch.get_dynamic_layer_stack_depth() and self._transforms():
            raise RefusedInputError(
                "the transforms of torch.func",
                "a call outside of them, since the model uses some itself and the graph counts how deep they lie",
                "a call inside of one",
                "Transform the model instead, and capture what the transform gives.",
            )
        for name, mode in self._modes.items():
            if self.get_submodule(name).training is not mode:
                self._refuse_mode(not mode)
        # While the module is exported or compiled, what it holds are stand-ins.
        if self.baked.held and not torch.compiler.is_compiling() and (changed := self.baked.changed()):
            advice = "The graph holds what was computed from the old ones. Change the model, and optimise it again."
            found = "others, which this graph does not read"
            raise RefusedInputError(f"the values of {', '.join(changed)}", "those that they had", found, advice)
        return self.call_signature.accept(args, kwargs)

    def _transforms(self) -> bool:
        """Whether the graph itself begins transforms of `torch.func`."""
        return any("increment_nesting" in str(node.target) for node in self.graph.nodes)

    def _refuse_mode(self, mode: bool) -> None:
        kinds = ("evaluation", "training")
        call = "train" if mode else "eval"
        raise RuntimeError(
            f"the graph was captured in {kinds[not mode]} mode, which is part of it; it has no {kinds[mode]} mode. "
            f"Call .{call}() on the model, and capture or optimise it again."
        )

    def train(self, mode: bool = True) -> CapturedModule:
        """Nothing where this is the captured mode already.

        Raises:
            RuntimeError: the graph was captured in the other mode.
        """
        if any(one is not mode for one in self._modes.values()):
            self._refuse_mode(mode)
        return self

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> CapturedModule:
        for name, tensor in [*self.named_parameters(), *self.named_buffers()]:
            probe = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            moved = fn(probe)
            if (moved.dtype, moved.device) != (probe.dtype, probe.device):
                raise RuntimeError(
                    f"{name} would become {moved.dtype} on {moved.device}, and the graph was captured with "
                    f"{probe.dtype} on {probe.device}, which is part of it. Convert or move the model, and capture or "
                    "optimise it again."
                )
        return super()._apply(fn, recurse)

    def _require_plain_checkpoints(self) -> None:
        if self.own_checkpoints:
            raise CaptureError(
                "call",
                f"the model makes and loads its checkpoints in its own way ({self.own_checkpoints}), which its graph "
                "does not know.",
                "use state_dict and load_state_dict of the model, and capture or optimise it again.",
            )

    def _save_to_state_dict(self, *rest: Any) -> None:
        self._require_plain_checkpoints()
        super()._save_to_state_dict(*rest)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        self._require_plain_checkpoints()
        held = self.state_dict(keep_vars=True)
        changed = [
            name
            for name in sorted(self.baked.held)
            if prefix + name in state_dict and not torch.equal(held[name], state_dict[prefix + name].to(held[name]))
        ]
        if changed:
            raise RuntimeError(
                f"the graph does not read {', '.join(changed)}, whose values may have gone into its constants: loading "
                "others would change nothing. Load the checkpoint into the model, and capture or optimise it again."
            )
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def note_baked(self, known: set[str], read: set[str]) -> None:
        """Note which of the model's tensors the graph no longer reads, where it holds constants that are new.

        Args:
            known: names of the tensors of the model, or of its graph before it was rewritten.
            read: names of those that it reads.
        """
        now = tensors_of(self)
        self.baked = self.baked.of(self, (read - tensors_read(self)) & now if now - known else ())


@dataclass
class SmallSizes:
    """Sizes of 0 and 1 that a call has and the example has not (see `CallSignature.small`), and whether to take them.

    They are empty for what has no `CallSignature`, and so no open sizes that it takes for 2 or more.
    """

    sizes: frozenset[tuple[str, int, int]]
    allowed: bool = False


@contextmanager
def trying_small_sizes(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[SmallSizes]:
    """Let a captured module take the sizes of 0 and 1 of this call, and afterwards only if they are then `allowed`."""
    signature = module.call_signature if isinstance(module, CapturedModule) else None
    small = SmallSizes(signature.small_sizes(tree_leaves((args, kwargs))) if signature is not None else frozenset())
    if signature is None or not small.sizes:
        yield small
        return
    module.call_signature = signature.with_small(small.sizes, allowed=True)
    try:
        yield small
    finally:
        module.call_signature = signature.with_small(small.sizes, allowed=small.allowed)


def captured_module(
    graph_module: fx.GraphModule,
    model: nn.Module,
    call_signature: CallSignature,
    asked: Collection[str] = (),
    *,
    guarded: bool = False,
) -> CapturedModule:
    """A `CapturedModule` over a graph module that is called as the model is.

    Args:
        graph_module: made by `torch.export` or torch.fx; its tensors are shared.
        model: the model that was captured: says the training mode, and which tensors are persistent buffers.
        call_signature: the form of its calls.
        asked: what the model asked while it was captured (see `questions`).
        guarded: whether to keep the check of sizes that `torch.export` puts into the graph.
    """
    module = clone_graph_module(graph_module, CapturedModule)
    assert isinstance(module, CapturedModule)
    for name in _OF_EXPORT:
        vars(module).pop(name, None)
    for name, held in vars(module).items():
        if "_hooks" in name and name.startswith("_forward"):
            held.clear()
    if not guarded and hasattr(module, _GUARDS):
        for node in module.graph.find_nodes(op="call_module", target=_GUARDS):
            module.graph.erase_node(node)
        delattr(module, _GUARDS)
        module.recompile()
    for name, part in list(module.named_modules()):
        if name and isinstance(part, fx.GraphModule):
            owner, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(owner), attribute, clone_graph_module(part, StoredGraphModule))
    _add_unread(module, model)
    keep_state_as_it_was(module, model)
    modes = {name: one.training for name, one in model.named_modules()}
    for name, part in module.named_modules():
        part.training = modes.get(name, model.training)
    called = {str(node.target) for node in module.graph.nodes if node.op == "call_module"} - {_GUARDS}
    module._modes = {name: module.get_submodule(name).training for name in ("", *sorted(called))}
    module.call_signature = call_signature
    module.baked = BakedTensors()
    module.lost_gradients, module.own_checkpoints = lost_gradients(model, called, asked), own_checkpoints(model)
    return module


def _add_unread(module: fx.GraphModule, model: nn.Module) -> None:
    """Register the parameters and buffers that the graph does not read, so that checkpoints of the model fit."""
    known = {path for path, _ in module.named_modules(remove_duplicate=False)}
    for path, part in model.named_modules(remove_duplicate=False):
        held = {**part._parameters, **part._buffers}
        if held and path not in known:
            module.add_submodule(path, nn.Module())
        owner = module.get_submodule(path) if held else module
        for name, tensor in held.items():
            if not hasattr(owner, name):
                register = owner.register_parameter if name in part._parameters else owner.register_buffer
                register(name, tensor)


def keep_state_as_it_was(graph_module: fx.GraphModule, model: nn.Module) -> None:
    """Give `graph_module` the `state_dict` of `model`: torch.fx makes persistent buffers of all tensors that it holds.

    Args:
        graph_module: made by torch.fx from `model`; changed in place.
        model: says which tensors are persistent buffers, which are not, and which are plain attributes.
    """
    persistent = persistent_names(model)
    buffers = {name for name, _ in model.named_buffers(remove_duplicate=False)}
    for name, tensor in list(graph_module.named_buffers(remove_duplicate=False)):
        path, _, attribute = name.rpartition(".")
        owner = graph_module.get_submodule(path)
        if name in buffers and name not in persistent:
            owner._non_persistent_buffers_set.add(attribute)
        elif name not in buffers:
            del owner._buffers[attribute]
            setattr(owner, attribute, tensor)


def hide_new_tensors(module: CapturedModule, known: set[str]) -> None:
    """Make plain attributes of the tensors that passes added, so that the `state_dict` stays the model's."""
    for name in tensors_of(module) - known:
        path, _, attribute = name.rpartition(".")
        owner = module.get_submodule(path)
        tensor = getattr(owner, attribute)
        owner._parameters.pop(attribute, None)
        owner._buffers.pop(attribute, None)
        vars(owner)[attribute] = tensor


def tensors_of(module: nn.Module) -> set[str]:
    """Names of all tensors that a module holds, plain attributes included."""
    found = set()
    for path, part in module.named_modules(remove_duplicate=False):
        own = {**vars(part), **part._parameters, **part._buffers}
        prefix = f"{path}." if path else ""
        found |= {prefix + name for name, value in own.items() if isinstance(value, torch.Tensor)}
    return found


def tensors_read(graph_module: fx.GraphModule) -> set[str]:
    """Names of the tensors that a graph reads: attributes, and all that the modules hold that it calls."""
    read: set[str] = set()
    for node in graph_module.graph.nodes:
        if node.op == "get_attr":
            read.add(str(node.target))
        elif node.op == "call_module":
            held = persistent_names(graph_module.get_submodule(str(node.target)))
            read |= {f"{node.target}.{name}" for name in held}
    return read


class _Reference(str):
    """The name of a node, in arguments."""


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Operators by name; torch cannot pickle them."""
        if isinstance(value, OpOverload):
            return _operator, (value.namespace, value._schema.name.partition("::")[2], value._overloadname)
        if isinstance(value, OpOverloadPacket):
            return _operator, (*value._qualified_op_name.split("::"), None)
        if isinstance(value, HigherOrderOperator):
            return _operator, ("higher_order", value.name(), None)
        return NotImplemented


def _operator(namespace: str, name: str, overload: str | None) -> Any:
    packet = getattr(getattr(torch.ops, namespace), name)
    return packet if overload is None else getattr(packet, overload)


def _encoded(graph: fx.Graph) -> bytes:
    """The nodes without their `meta`, and the code generator, which knows the signature."""

    def refer(argument: Any) -> Any:
        return fx.node.map_arg(argument, lambda node: _Reference(node.name))

    nodes = [(node.op, node.name, node.target, refer(node.args), refer(node.kwargs)) for node in graph.nodes]
    stored = io.BytesIO()
    _Pickler(stored).dump((nodes, graph._codegen))
    return stored.getvalue()


def _restored(class_: type[StoredGraphModule], encoded: bytes, state: dict[str, Any]) -> StoredGraphModule:
    module = class_.__new__(class_)
    vars(module).update(state)
    rows, codegen = pickle.loads(encoded)
    graph, nodes = fx.Graph(owning_module=module), dict[str, fx.Node]()

    def find(argument: Any) -> Any:
        return fx.node.map_aggregate(argument, lambda one: nodes[one] if isinstance(one, _Reference) else one)

    for kind, name, target, args, kwargs in rows:
        nodes[name] = graph.create_node(kind, target, find(args), find(kwargs), name=name)
    graph.set_codegen(codegen)
    vars(module)["_graph"] = graph
    module.recompile()
    return module
