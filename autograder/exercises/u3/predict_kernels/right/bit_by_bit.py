"""Keeps sets of keys, as PyTorch does: what tensors carry, what the thread includes and excludes."""

ORDER = ("Dense", "Sparse", "ADInplaceOrView", "Autograd", "AutocastCPU", "FuncTorchBatched")


def carried(tensor):
    keys = {"Sparse" if tensor["layout"] == "sparse" else "Dense"}
    if tensor["device"] == "cpu":
        keys.add("AutocastCPU")
    if tensor["made"] not in ("inside", "clone inside"):
        keys |= {"Autograd", "ADInplaceOrView"}
    if tensor["batched"]:
        keys.add("FuncTorchBatched")
    return keys


def kernels(tensors, blocks):
    included, excluded = {"ADInplaceOrView"}, {"AutocastCPU"}
    for block in blocks:
        if block == "inference_mode":
            included.discard("ADInplaceOrView")
            excluded.add("Autograd")
        elif block == "inference_mode off":
            included.add("ADInplaceOrView")
            excluded.discard("Autograd")
        elif block == "autocast":
            excluded.discard("AutocastCPU")
        elif block == "autocast off":
            excluded.add("AutocastCPU")
    keys = set(included).union(*map(carried, tensors)) - excluded
    # Once a kernel computes, nothing is below it.
    if "Sparse" in keys:
        keys.discard("Dense")
    device = "Meta" if "meta" in {tensor["device"] for tensor in tensors} else "CPU"
    joined = {"Dense": device, "Sparse": "Sparse" + device, "Autograd": "Autograd" + device}
    return [joined.get(key, key) for key in reversed(ORDER) if key in keys]
