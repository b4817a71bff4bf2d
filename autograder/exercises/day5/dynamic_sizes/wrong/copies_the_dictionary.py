"""one tensor under two names

Copies the dictionary as a whole: what was one tensor is one tensor in the copy, too.
"""

import copy
import itertools

import torch
from torch.export import Dim, export


def try_export(model, tensors):
    """The exported program with every size offered as dynamic, or `None`."""
    offered = {name: [Dim.AUTO] * value.dim() for name, value in tensors.items()}
    try:
        return export(model, (), tensors, dynamic_shapes=offered)
    except Exception:
        return None


def widened(example, ones):
    """The example with a size of 2 in the place of each of these sizes of 1."""
    tensors = {}
    for name, value in example.items():
        for dimension in range(value.dim()):
            if (name, dimension) in ones:
                value = torch.cat([value, value], dim=dimension)
        tensors[name] = value
    return tensors


def export_widest(model, example):
    """Exported with as many sizes of 1 turned into 2 as the model takes."""
    ones = [(name, place) for name, value in example.items() for place, size in enumerate(value.shape) if size == 1]
    for kept in range(len(ones) + 1):
        for fixed in itertools.combinations(ones, kept):
            program = try_export(model, widened(example, set(ones) - set(fixed)))
            if program is not None:
                return program
    raise ValueError("the exporter refuses")


def dynamic_sizes(model, example):
    """For each input the sizes: a number where it is fixed, a name where it may vary."""
    program = export_widest(model, copy.deepcopy(example))
    places = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    answer = {}
    for name, placeholder in zip(example, program.graph_signature.user_inputs):
        texts = [str(size) for size in places[placeholder].meta["val"].shape]
        answer[name] = [int(text) if text.isdigit() else text for text in texts]
    return answer
