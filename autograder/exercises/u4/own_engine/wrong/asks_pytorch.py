"""raised

Hands the work to PyTorch's engine, with a hook on each node.
"""

import torch
from torch.autograd.graph import get_gradient_edge


def run_backward(tensors, gradients):
    """Do what torch.autograd.backward does; the nodes in the order in which they were called."""
    called, known = [], []
    waiting = [get_gradient_edge(tensor).node for tensor in tensors]
    while waiting:
        node = waiting.pop()
        if node not in known:
            known.append(node)
            node.register_prehook(lambda _, node=node: called.append(node))
            waiting += [following for following, _ in node.next_functions if following is not None]
    torch.autograd.backward(tensors, gradients)
    return called
