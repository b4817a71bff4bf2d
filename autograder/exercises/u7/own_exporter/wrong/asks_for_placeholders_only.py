"""one name twice

Evades the names of inputs and weights, and not those of other nodes.
"""

import itertools
import operator

import numpy
import torch
from torch import fx

ONE_INPUT = {"aten.relu.default": "Relu", "aten.tanh.default": "Tanh", "aten.sigmoid.default": "Sigmoid"}
TWO_INPUTS = {"aten.add.Tensor": "Add", "aten.sub.Tensor": "Sub", "aten.mul.Tensor": "Mul", "aten.div.Tensor": "Div"}


def to_onnx(graph: fx.Graph, weights: dict[str, torch.Tensor], sizes: dict[str, list]) -> bytes:
    """The graph as an ONNX model."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, initializers, inputs, outputs = [], [], [], []
    taken = {node.name for node in graph.nodes if node.op == "placeholder"}
    counter = itertools.count()

    def fresh(stem):
        while (name := f"{stem}_{next(counter)}") in taken:
            pass
        return name

    def constant(value, dtype):
        name = fresh("const")
        initializers.append(numpy_helper.from_array(numpy.array(value, dtype=dtype), name))
        return name

    def emit(kind, given, name, **attributes):
        nodes.append(helper.make_node(kind, given, [name], **attributes))
        return name

    def size(value):
        """A tensor of one size."""
        return value.name if isinstance(value, fx.Node) else constant([value], numpy.int64)

    def argument(node, place, name, default):
        return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)

    for node in graph.nodes:
        target = str(node.target)
        if node.op == "placeholder":
            if node.name in weights:
                array = weights[node.name].detach().cpu().contiguous().numpy()
                initializers.append(numpy_helper.from_array(array, node.name))
            else:
                inputs.append(helper.make_tensor_value_info(node.name, TensorProto.FLOAT, sizes[node.name]))
        elif node.op == "output":
            for value in node.args[0]:
                name = emit("Identity", [value.name], fresh("output"))
                outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
        elif target == "aten.view.default":
            x, shape = node.args
            if shape:
                shape = emit("Concat", [size(value) for value in shape], fresh("shape"), axis=0)
            else:
                shape = constant([], numpy.int64)
            emit("Reshape", [x.name, shape], node.name, allowzero=1)
        elif target == "aten.sym_size.int":
            x, d = node.args
            ends = {} if d == -1 else {"end": d + 1}
            emit("Shape", [x.name], node.name, start=d, **ends)
        elif node.target is operator.mul:
            emit("Mul", [size(value) for value in node.args], node.name)
        elif target == "aten.permute.default":
            x, dims = node.args
            emit("Transpose", [x.name], node.name, perm=[d % len(dims) for d in dims])
        elif target == "aten.cat.default":
            emit("Concat", [x.name for x in node.args[0]], node.name, axis=argument(node, 1, "dim", 0))
        elif target == "aten._softmax.default":
            emit("Softmax", [node.args[0].name], node.name, axis=argument(node, 1, "dim", -1))
        elif target == "aten.mean.dim":
            dims = argument(node, 1, "dim", None) or []
            dims = [dims] if isinstance(dims, int) else list(dims)
            keep = int(bool(argument(node, 2, "keepdim", False)))
            emit("ReduceMean", [node.args[0].name, constant(dims, numpy.int64)], node.name, keepdims=keep)
        elif target == "aten.addmm.default":
            bias, a, b = node.args
            scales = {"alpha": float(node.kwargs.get("alpha", 1)), "beta": float(node.kwargs.get("beta", 1))}
            emit("Gemm", [a.name, b.name, bias.name], node.name, **scales)
        elif target == "aten.mm.default":
            emit("MatMul", [x.name for x in node.args], node.name)
        elif target in ONE_INPUT:
            emit(ONE_INPUT[target], [node.args[0].name], node.name)
        elif target in TWO_INPUTS:
            first, second = node.args
            alpha = node.kwargs.get("alpha", 1)
            if not isinstance(second, fx.Node):
                second = constant(second * alpha, numpy.float32)
            elif alpha != 1:
                second = emit("Mul", [second.name, constant(alpha, numpy.float32)], fresh("scaled"))
            else:
                second = second.name
            emit(TWO_INPUTS[target], [first.name, second], node.name)
        else:
            raise NotImplementedError(target if isinstance(node.target, torch._ops.OpOverload) else f"{node.target}")
    made = helper.make_graph(nodes, "program", inputs, outputs, initializers)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)])
    return model.SerializeToString()
