"""one inference tensor decides

A single inference tensor among the arguments takes autograd away from all.
"""


def keys_of(tensor):
    """The keys that a tensor carries."""
    keys = {tensor["device"], tensor["layout"]}
    if tensor["device"] == "cpu":
        keys.add("autocast")
    if tensor["made"] in ("outside", "view inside", "clone outside"):
        keys |= {"autograd", "views"}
    return keys


def kernels(tensors, blocks):
    carried = set().union(*map(keys_of, tensors))
    if any("autograd" not in keys_of(tensor) for tensor in tensors):
        carried -= {"autograd", "views"}
    switched = {}
    for block in blocks:
        switched[block.removesuffix(" off")] = not block.endswith(" off")
    on = lambda name: switched.get(name, False)
    if on("inference_mode"):
        carried.discard("autograd")
    else:
        carried.add("views")
    if not on("autocast"):
        carried.discard("autocast")
    device = "Meta" if "meta" in carried else "CPU"
    names = []
    if on("vmap") and any(tensor["batched"] for tensor in tensors):
        names.append("FuncTorchBatched")
    if "autocast" in carried:
        names.append("AutocastCPU")
    if "autograd" in carried:
        names.append(f"Autograd{device}")
    if "views" in carried:
        names.append("ADInplaceOrView")
    return [*names, ("Sparse" if "sparse" in carried else "") + device]
