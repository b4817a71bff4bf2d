"""one name twice

Adds the bias itself, and calls the product before it `product` in each layer.
"""

import operator

import numpy
import torch
from torch import fx

ONE_INPUT = {"aten.relu.default": "Relu", "aten.tanh.default": "Tanh", "aten.sigmoid.default": "Sigmoid"}
TWO_INPUTS = {"aten.add.Tensor": "Add", "aten.sub.Tensor": "Sub", "aten.mul.Tensor": "Mul", "aten.div.Tensor": "Div"}


def to_onnx(graph: fx.Graph, weights: dict[str, torch.Tensor], sizes: dict[str, list]) -> bytes:
    """The graph as an ONNX model."""
    from onnx import TensorProto, helper, numpy_helper, shape_inference

    nodes = []
    constants = [numpy_helper.from_array(weight.numpy(), name) for name, weight in weights.items()]

    def emit(kind, inputs, name, **attributes):
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def named(value, dtype):
        """The name of a node's value, or of a new constant."""
        if isinstance(value, fx.Node):
            return value.name
        name = f"constant.{len(constants)}"
        constants.append(numpy_helper.from_array(numpy.array(value, dtype), name))
        return name

    def translate(node):
        kind, name, args = str(node.target), node.name, node.args
        if kind in ONE_INPUT:
            emit(ONE_INPUT[kind], [args[0].name], name)
        elif kind in TWO_INPUTS:
            second = named(args[1], numpy.float32)
            if "alpha" in node.kwargs:
                second = emit("Mul", [second, named(node.kwargs["alpha"], numpy.float32)], f"{name}.scaled")
            emit(TWO_INPUTS[kind], [args[0].name, second], name)
        elif kind == "aten.mm.default":
            emit("MatMul", [args[0].name, args[1].name], name)
        elif kind == "aten.addmm.default":
            emit("Add", [emit("MatMul", [args[1].name, args[2].name], "a.product"), args[0].name], name)
        elif kind == "aten.permute.default":
            emit("Transpose", [args[0].name], name, perm=[dim % len(args[1]) for dim in args[1]])
        elif kind == "aten.cat.default":
            emit("Concat", [one.name for one in args[0]], name, axis=args[1] if len(args) > 1 else 0)
        elif kind == "aten._softmax.default":
            emit("Softmax", [args[0].name], name, axis=args[1])
        elif kind == "aten.mean.dim":
            keep = int(len(args) > 2 and args[2])
            emit("ReduceMean", [args[0].name], name, axes=list(args[1]), keepdims=keep)
        elif kind == "aten.sym_size.int":
            end = {} if args[1] == -1 else {"end": args[1] + 1}
            emit("Shape", [args[0].name], name, start=args[1], **end)
        elif node.target is operator.mul:
            emit("Mul", [named(one if isinstance(one, fx.Node) else [one], numpy.int64) for one in args], name)
        elif kind == "aten.view.default":
            parts = [named(one if isinstance(one, fx.Node) else [one], numpy.int64) for one in args[1]]
            emit("Reshape", [args[0].name, emit("Concat", parts, f"{name}.shape", axis=0)], name)
        else:
            raise NotImplementedError(f"no translation to ONNX for {kind}")

    for node in graph.nodes:
        if node.op == "call_function":
            translate(node)
    [outputs] = graph.find_nodes(op="output")
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()]
    results = [helper.make_tensor_value_info(node.name, TensorProto.FLOAT, None) for node in outputs.args[0]]
    made = helper.make_graph(nodes, "program", inputs, results, constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return shape_inference.infer_shapes(model).SerializeToString()
