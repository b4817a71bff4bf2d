"""Linear layers that read the same value become one: queries, keys and values of attention, gates, experts.

    x @ w1ᵀ + b1, x @ w2ᵀ + b2    becomes    (x @ [w1; w2]ᵀ + [b1; b2]) in slices

A candidate that is right, and finds what no pass of the course does.
"""

import torch
from torch import nn
from torch.nn import functional

from fxopt_core.graphs.examples import example_of
from fxopt_core.passes import OptimizationPass, register_pass
from fxopt_core.passes.base import Analysis, Opportunity
from fxopt_core.verification import Tolerance

aten = torch.ops.aten

COMPUTES = {
    *(torch.matmul, torch.bmm, torch.einsum, torch.softmax, torch.sigmoid, torch.tanh, torch.exp, torch.relu),
    *(functional.gelu, functional.silu, functional.relu6, functional.softplus, torch.erf, torch.square),
    *("__add__", "matmul", "softmax", "sigmoid", "mul", "add", "sub", "exp", "sum", "pow", "norm", "clamp"),
    *(torch.pow, torch.maximum, torch.log),
    *(aten.mul.Tensor, aten.add.Tensor, aten.sub.Tensor, aten.div.Tensor, aten.bmm.default, aten.mm.default),
    *(aten.addmm.default, aten.sigmoid.default, aten.tanh.default, aten.exp.default, aten.relu.default),
    *(aten.clone.default, aten.gelu.default, aten.erf.default, aten.pow.Tensor_Scalar, aten.sum.dim_IntList),
    *(aten.neg.default, aten.maximum.default, aten.clamp.default, aten.linalg_vector_norm.default),
}
COMPUTES |= {getattr(__import__("operator"), name) for name in ("add", "sub", "mul", "truediv", "matmul", "pow", "neg")}
"""What reads its operands element by element or copies them, and makes a result of its own in row order."""

VIEWS = {
    *(torch.transpose, torch.permute, torch.reshape, torch.unflatten, torch.flatten),
    *("transpose", "permute", "reshape", "view", "unflatten", "unsqueeze"),
    *(aten.view.default, aten.permute.default, aten.transpose.int, aten.unsqueeze.default, aten.expand.default),
}


class Layer:
    """A linear layer as it was found: the node, what it reads, and its weights, one row a feature."""

    def __init__(self, node, source, weight, bias, key):
        self.node, self.source, self.weight, self.bias, self.key = node, source, weight, bias, key


@register_pass("merged_layers")
class MergedLayers(OptimizationPass):
    """Layers of one input become one layer, where nobody can see that their results are slices."""

    tolerance = Tolerance(relative=1e-5)
    keeps_gradients = False

    def analyze(self, editor):
        analysis, groups = Analysis(), {}
        for node in editor.graph.nodes:
            layer = self.layer(editor, node)
            if layer is None:
                continue
            reason = self.why_not(editor, layer)
            if reason:
                analysis.refuse(node, reason)
                continue
            groups.setdefault(self.group(editor, layer), []).append(layer)
        for layers in groups.values():
            if len(layers) > 1:
                analysis.opportunities.append(Opportunity(layers[0].node, layers))
        return analysis

    def group(self, editor, layer):
        key = (layer.source, layer.key)
        key += (editor.timeline.version(layer.source, layer.node),)  # check: writes
        key += (editor.timeline.mode(layer.node),)  # check: modes
        return key

    def layer(self, editor, node):
        root = editor.graph_module
        if node.op == "call_module":
            module = root.get_submodule(node.target)
            if type(module) is nn.Linear and len(node.args) == 1:
                return Layer(node, node.args[0], module.weight, module.bias, ("module", module.in_features))
        if node.target in (aten.addmm.default, aten.mm.default) and not node.kwargs:
            source, turned = node.args[-2:]
            if turned.target in (aten.permute.default, aten.t.default) and turned.args[0].op == "get_attr":
                weight, bias = root.get_parameter(turned.args[0].target), None
                if node.target is aten.addmm.default:
                    if node.args[0].op != "get_attr":
                        return None
                    bias = root.get_parameter(node.args[0].target)
                return Layer(node, source, weight, bias, ("product", weight.shape[1]))
        return None

    def why_not(self, editor, layer):
        example = example_of(layer.node)
        if example is None or not isinstance(layer.source, torch.fx.Node) or example_of(layer.source) is None:
            return "the shapes are not known"
        if example.dtype not in (torch.float32, torch.float64):  # check: dtypes
            return f"{example.dtype} is rounded in each step"  # check: dtypes
        if any(node.op == "get_attr" and editor.storages.written(node) for node in editor.graph.nodes):
            return "the program writes to its weights"
        sliced = torch.empty(*example.shape[:-1], 2 * example.shape[-1] + 1, device="meta")[..., : example.shape[-1]]
        return self.seen_by(layer.node, sliced)

    def seen_by(self, node, sliced):
        """Why some reader of a value would notice that it lies in memory as `sliced` does."""
        for user in node.users:
            if user.target in COMPUTES or (user.op == "call_module" and user.users):
                continue
            example = example_of(user)
            if user.target not in VIEWS or example is None:
                return f"{user} may see the strides"
            try:
                name = user.target if isinstance(user.target, str) else user.target.__name__.split(".")[0]
                numbers = [one for one in user.args[1:] if isinstance(one, (int, tuple, list))]
                if name in ("view", "reshape", "unflatten", "flatten"):
                    further = sliced.view(example.shape)
                else:
                    further = getattr(sliced, name)(*numbers)
            except RuntimeError:
                return f"{user} cannot be a view of a slice"
            reason = self.seen_by(user, further)
            if reason:
                return reason
        return None

    def transform(self, editor, opportunity):
        layers = opportunity.data
        first = layers[0].node
        sizes = [layer.weight.shape[0] for layer in layers]
        weight = torch.cat([layer.weight.detach() for layer in layers])
        bias = None
        if any(layer.bias is not None for layer in layers):
            rows = [layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias for layer in layers]
            bias = editor.constant(nn.Parameter(torch.cat(rows).detach()), "merged_bias", like=first)
        source, start = layers[0].source, 0
        if layers[0].key[0] == "module":
            matrix = editor.constant(nn.Parameter(weight), "merged_weight", like=first)
            whole = editor.call(functional.linear, source, matrix, bias, like=first)
        else:
            matrix = editor.constant(nn.Parameter(weight.t().contiguous()), "merged_weight", like=first)
            given = (bias, source, matrix) if bias is not None else (source, matrix)
            whole = editor.call(aten.addmm.default if bias is not None else aten.mm.default, *given, like=first)
        parts = []
        for size in sizes:
            if layers[0].key[0] == "module":
                parts.append(editor.call(torch.narrow, whole, -1, start, size, like=first))
            else:
                parts.append(editor.call(aten.slice.Tensor, whole, 1, start, start + size, like=first))
            start += size
        for layer, part in zip(layers, parts, strict=True):
            editor.replace(layer.node, part)
