"""Symbolic tracing in which sizes are known, so that loops over sizes and choices by size can be followed."""

import copy

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode


class KnownProxy(fx.Proxy):
    """A proxy that answers what follows from the example's shape; values stay unknown."""

    def __getattr__(self, name):
        example = self.node.meta.get("val")
        if name in ("shape", "dtype", "device", "ndim") and isinstance(example, torch.Tensor):
            return getattr(example, name)
        return super().__getattr__(name)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return self.ndim

    def __iter__(self):
        example = self.node.meta.get("val")
        if isinstance(example, (tuple, list, torch.Tensor)):
            return iter([self[place] for place in range(len(example))])
        return super().__iter__()


class ShapeTracer(fx.Tracer):
    """Runs each node on fake tensors as it is made, which have shapes and no content."""

    proxy_buffer_attributes = True

    def __init__(self, model, examples):
        super().__init__()
        # While a model is traced, its modules and parameters answer with proxies; those of a copy do not.
        self.twin, self.examples = copy.deepcopy(model), iter(examples)
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)

    def proxy(self, node):
        return KnownProxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, *rest, **options):
        proxy = super().create_proxy(kind, target, args, kwargs, *rest, **options)
        if kind == "placeholder":
            # An input with a default value may have no example.
            value = next(self.examples, None)
            proxy.node.meta["val"] = self.fake(value)
        elif kind == "get_attr":
            owner, _, name = target.rpartition(".")
            proxy.node.meta["val"] = self.fake(getattr(self.twin.get_submodule(owner), name))
        else:
            proxy.node.meta["val"] = self.run(kind, target, *(self.known(part) for part in (args, kwargs)))
        return proxy

    def fake(self, value):
        return torch.utils._pytree.tree_map_only(torch.Tensor, self.mode.from_tensor, value)

    def known(self, arguments):
        return fx.node.map_aggregate(
            arguments, lambda value: value.node.meta.get("val") if isinstance(value, fx.Proxy) else value
        )

    def run(self, kind, target, args, kwargs):
        """The example of a node, or `None` where shapes do not tell it."""
        try:
            with self.mode, torch.no_grad():
                if kind == "call_method":
                    return getattr(args[0], target)(*args[1:], **kwargs)
                called = self.twin.get_submodule(target).forward if kind == "call_module" else target
                return called(*args, **kwargs)
        except Exception:  # operators fail on unknown or fake values in any way; then there is no example
            return None


def capture(model, example_inputs):
    """The graph of a model for all values in the sizes of the example.

    Refused is what would be wrong on other values or at a second call: choices by value, draws and tensors that are
    made while the model is traced, and whatever the model changes in itself meanwhile.
    """
    traced = copy.deepcopy(model)
    tracer = ShapeTracer(traced, example_inputs)
    before = plain_state(traced)
    with torch.random.fork_rng(devices=[]):
        draws = torch.get_rng_state()
        try:
            graph = tracer.trace(traced)
        except Exception as error:
            raise ValueError(f"it cannot be traced: {type(error).__name__}: {error}") from error
        if not torch.equal(draws, torch.get_rng_state()):
            raise ValueError("it draws random numbers whose size does not come from an input")
    if plain_state(traced) != before:
        raise ValueError("it changes a buffer or an attribute of its own while it is traced")
    constants = [node.name for node in graph.nodes if str(node.target).startswith("_tensor_constant")]
    if constants:
        raise ValueError(f"it makes tensors whose size does not come from an input: {', '.join(constants)}")
    return fx.GraphModule(traced, graph)


def plain_state(model):
    """Everything in a model that a call could change, as something comparable."""
    return [
        (name, key, value)
        for name, module in model.named_modules()
        for key, value in vars(module).items()
        if isinstance(value, (bool, int, float, str))
    ] + [(name, value.tolist()) for name, value in model.state_dict().items()]
