"""other values

Weights are written in the order of their memory."""

import operator

import numpy
import torch
from torch import fx

KINDS = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}


def to_onnx(graph, weights, sizes):
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, inputs, outputs = [], [], [], []

    def constant(array):
        name = f"constant.{len(constants)}"
        constants.append(numpy_helper.from_array(numpy.ascontiguousarray(array), name))
        return name

    def ask(kind, given, name=None, **attributes):
        name = name or f"step.{len(nodes)}"
        nodes.append(helper.make_node(kind, given, [name], **attributes))
        return name

    def number(value):
        return value.name if isinstance(value, fx.Node) else constant(numpy.array(value, dtype=numpy.float32))

    def size(value):
        return value.name if isinstance(value, fx.Node) else constant(numpy.array([value], dtype=numpy.int64))

    ranks = {}

    for node in graph.nodes:
        if node.op == "placeholder":
            if node.name in weights:
                constants.append(
                    numpy_helper.from_array(
                        numpy.array(
                            weights[node.name].detach().as_strided((weights[node.name].numel(),), (1,))
                        ).reshape(weights[node.name].shape),
                        node.name,
                    )
                )
            else:
                inputs.append(helper.make_tensor_value_info(node.name, TensorProto.FLOAT, sizes[node.name]))
            continue
        if node.op == "output":
            for place, one in enumerate(node.args[0]):
                name = ask("Identity", [one.name], f"output.{place}")
                outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
            continue
        target, args, name = node.target, node.args, node.name
        if target is operator.mul:
            ask("Mul", [size(args[0]), size(args[1])], name)
            continue
        text = str(target)
        if text == "aten.sym_size.int":
            shape = ask("Shape", [args[0].name])
            ask("Gather", [shape, constant(numpy.array([args[1]], dtype=numpy.int64))], name, axis=0)
        elif text == "aten.view.default":
            ask("Reshape", [args[0].name, ask("Concat", [size(one) for one in args[1]], axis=0)], name)
        elif text == "aten.permute.default":
            ask("Transpose", [args[0].name], name, perm=[one % len(args[1]) for one in args[1]])
        elif text == "aten.cat.default":
            ask(
                "Concat",
                [one.name for one in args[0]],
                name,
                axis=args[1] if len(args) > 1 else node.kwargs.get("dim", 0),
            )
        elif text == "aten._softmax.default":
            ask("Softmax", [args[0].name], name, axis=args[1])
        elif text == "aten.mean.dim":
            keep = args[2] if len(args) > 2 else node.kwargs.get("keepdim", False)
            ask(
                "ReduceMean",
                [args[0].name, constant(numpy.array(args[1], dtype=numpy.int64))],
                name,
                keepdims=int(keep),
            )
        elif text == "aten.addmm.default":
            ask("Gemm", [args[1].name, args[2].name, args[0].name], name)
        elif text == "aten.mm.default":
            ask("MatMul", [args[0].name, args[1].name], name)
        elif text in ("aten.relu.default", "aten.tanh.default", "aten.sigmoid.default"):
            ask(KINDS[text.split(".")[1]], [args[0].name], name)
        elif text in ("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor"):
            second = number(args[1])
            if node.kwargs.get("alpha", 1) != 1:
                second = ask("Mul", [second, number(node.kwargs["alpha"])])
            ask(KINDS[text.split(".")[1]], [number(args[0]), second], name)
        else:
            raise NotImplementedError(text)
    model = helper.make_graph(nodes, "exported", inputs, outputs, constants)
    return helper.make_model(model, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
