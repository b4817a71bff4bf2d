"""Keeps sets of keys, as PyTorch does: what tensors carry, what the thread includes and excludes."""

ORDER = ("FuncTorchBatched", "AutocastCPU", "Autograd", "ADInplaceOrView")


def carried(tensor):
    keys = set()
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
    keys = included.union(*map(carried, tensors)) - excluded
    device = "Meta" if "meta" in {tensor["device"] for tensor in tensors} else "CPU"
    layout = "Sparse" if "sparse" in {tensor["layout"] for tensor in tensors} else ""
    walked = [key + device if key == "Autograd" else key for key in ORDER if key in keys]
    return [*walked, layout + device]
