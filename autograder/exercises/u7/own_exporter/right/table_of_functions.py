"""A function for each operator, in a table; sizes are gathered from the whole shape."""

import operator

import numpy
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import fx

RULES = {}


def rule(*names):
    def enter(function):
        for name in names:
            RULES[name] = function
        return function

    return enter


class Writer:
    def __init__(self):
        self.nodes, self.weights = [], []

    def add(self, kind, inputs, **attributes):
        name = f"value.{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value):
        name = f"constant.{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def number(self, value):
        return self.constant(numpy.float32(value)) if isinstance(value, (int, float)) else value

    def shape(self, value):
        return self.constant(numpy.int64([value])) if isinstance(value, int) else value


@rule("aten.relu.default", "aten.tanh.default", "aten.sigmoid.default")
def one(writer, name, x):
    return writer.add({"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid"}[name.split(".")[1]], [x])


@rule("aten.mul.Tensor", "aten.div.Tensor")
def product(writer, name, x, y):
    return writer.add("Mul" if "mul" in name else "Div", [x, writer.number(y)])


@rule("aten.add.Tensor", "aten.sub.Tensor")
def total(writer, name, x, y, alpha=1):
    y = writer.number(y)
    if alpha != 1:
        y = writer.add("Mul", [writer.number(alpha), y])
    return writer.add("Add" if "add" in name else "Sub", [x, y])


@rule("aten.mm.default")
def mm(writer, name, x, y):
    return writer.add("MatMul", [x, y])


@rule("aten.addmm.default")
def addmm(writer, name, bias, x, y):
    return writer.add("Add", [writer.add("MatMul", [x, y]), bias])


@rule("aten.permute.default")
def permute(writer, name, x, dims):
    return writer.add("Transpose", [x], perm=[dim + len(dims) if dim < 0 else dim for dim in dims])


@rule("aten.cat.default")
def cat(writer, name, parts, dim=0):
    return writer.add("Concat", parts, axis=dim)


@rule("aten._softmax.default")
def softmax(writer, name, x, dim, half):
    return writer.add("Softmax", [x], axis=dim)


@rule("aten.mean.dim")
def mean(writer, name, x, dims, keepdim=False):
    return writer.add("ReduceMean", [x, writer.constant(numpy.int64(dims))], keepdims=1 if keepdim else 0)


@rule("aten.sym_size.int")
def size(writer, name, x, dim):
    return writer.add("Gather", [writer.add("Shape", [x]), writer.constant(numpy.int64([dim]))])


@rule("<built-in function mul>")
def times(writer, name, x, y):
    return writer.add("Mul", [writer.shape(x), writer.shape(y)])


@rule("aten.view.default")
def view(writer, name, x, sizes):
    return writer.add("Reshape", [x, writer.add("Concat", [writer.shape(one) for one in sizes], axis=0)])


def to_onnx(graph: fx.Graph, weights: dict[str, torch.Tensor], sizes: dict[str, list]) -> bytes:
    writer, known = Writer(), {}
    for node in graph.nodes:
        if node.op == "placeholder":
            known[node] = node.name
        elif node.op == "call_function":
            name = str(node.target)
            if name not in RULES:
                raise NotImplementedError(name)
            args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
            known[node] = RULES[name](
                writer, name, *[list(one) if isinstance(one, tuple) else one for one in args], **kwargs
            )
        else:
            last = node.args[0]
    outputs = [writer.add("Identity", [known[node]]) for node in last]
    made = helper.make_graph(
        writer.nodes,
        "translated",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        writer.weights + [numpy_helper.from_array(one.numpy(), name) for name, one in weights.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return model.SerializeToString()
