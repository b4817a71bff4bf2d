"""one name twice

Calls constants by an operator and a number, as FX calls nodes.
"""

import operator

import numpy
import torch
from torch import fx

ONE_INPUT = {"aten.relu.default": "Relu", "aten.tanh.default": "Tanh", "aten.sigmoid.default": "Sigmoid"}
TWO_INPUTS = {"aten.add.Tensor": "Add", "aten.sub.Tensor": "Sub", "aten.mul.Tensor": "Mul", "aten.div.Tensor": "Div"}


def to_onnx(graph: fx.Graph, weights: dict[str, torch.Tensor], sizes: dict[str, list]) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants = [], []
    counted = [0]

    def fresh(stem):
        name, number = stem, 0
        counted[0] += 1
        return f"{stem}_{counted[0]}"

    def emit(kind, inputs, name=None, **attributes):
        name = name or fresh(kind.lower())
        nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(array):
        name = fresh("add")
        constants.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def number(value):
        return constant(numpy.array(value, dtype=numpy.float32))

    def size(value):
        return value.name if isinstance(value, fx.Node) else constant(numpy.array([value], dtype=numpy.int64))

    def given(node, place, key, default=None):
        return node.args[place] if len(node.args) > place else node.kwargs.get(key, default)

    inputs, outputs, ranks = [], [], {}
    for node in graph.nodes:
        name, kind = node.name, str(node.target)
        if node.op == "placeholder":
            if name in weights:
                array = weights[name].detach().cpu().contiguous().numpy()
                constants.append(numpy_helper.from_array(array, name))
            else:
                inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes[name]))
        elif node.op == "output":
            for one in node.args[0]:
                outputs.append(emit("Identity", [one.name], fresh("result")))
        elif kind in ONE_INPUT:
            emit(ONE_INPUT[kind], [node.args[0].name], name)
        elif kind in TWO_INPUTS:
            a, b = node.args
            alpha = node.kwargs.get("alpha", 1)
            if isinstance(b, fx.Node):
                second = b.name if alpha == 1 else emit("Mul", [b.name, number(alpha)])
            else:
                second = number(b * alpha)
            emit(TWO_INPUTS[kind], [a.name, second], name)
        elif kind == "aten.view.default":
            shape = (
                emit("Concat", [size(one) for one in node.args[1]], axis=0)
                if node.args[1]
                else constant(numpy.zeros(0, numpy.int64))
            )
            emit("Reshape", [node.args[0].name, shape], name)
        elif kind == "aten.sym_size.int":
            d = node.args[1]
            emit("Shape", [node.args[0].name], name, start=d, **({} if d == -1 else {"end": d + 1}))
        elif node.target is operator.mul:
            emit("Mul", [size(one) for one in node.args], name)
        elif kind == "aten.permute.default":
            perm = [one % len(node.args[1]) for one in node.args[1]]
            emit("Transpose", [node.args[0].name], name, perm=perm)
        elif kind == "aten.cat.default":
            emit("Concat", [one.name for one in node.args[0]], name, axis=given(node, 1, "dim", 0))
        elif kind == "aten._softmax.default":
            emit("Softmax", [node.args[0].name], name, axis=node.args[1])
        elif kind == "aten.mean.dim":
            axes = constant(numpy.array(node.args[1], dtype=numpy.int64))
            emit("ReduceMean", [node.args[0].name, axes], name, keepdims=int(given(node, 2, "keepdim", False)))
        elif kind == "aten.addmm.default":
            bias, a, b = (one.name for one in node.args)
            emit("Gemm", [a, b, bias], name)
        elif kind == "aten.mm.default":
            emit("MatMul", [one.name for one in node.args], name)
        else:
            raise NotImplementedError(f"no counterpart for {kind}")
    infos = [helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in outputs]
    model = helper.make_model(
        helper.make_graph(nodes, "graph", inputs, infos, constants), opset_imports=[helper.make_opsetid("", 18)]
    )
    return model.SerializeToString()
