"""Starts with every kernel and takes away those that do not run."""

from itertools import chain


def last(blocks, name, default):
    state = default
    for block in blocks:
        state = {name: True, f"{name} off": False}.get(block, state)
    return state


def kernels(tensors, blocks):
    values = set(chain.from_iterable(((name, value) for name, value in tensor.items()) for tensor in tensors))
    device = "Meta" if ("device", "meta") in values else "CPU"
    ordinary = bool(values & {("made", "outside"), ("made", "view inside"), ("made", "clone outside")})
    inference = last(blocks, "inference_mode", False)
    runs = {
        "FuncTorchBatched": ("batched", True) in values,
        "AutocastCPU": last(blocks, "autocast", False) and ("device", "cpu") in values,
        "Autograd" + device: ordinary and not inference,
        "ADInplaceOrView": ordinary or not inference,
        ("Sparse" if ("layout", "sparse") in values else "") + device: True,
    }
    return tuple(name for name, does in runs.items() if does)
