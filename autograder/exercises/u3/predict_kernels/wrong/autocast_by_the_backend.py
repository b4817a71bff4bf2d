"""autocast by the backend

With a tensor on meta the call is one on meta, and autocast for the CPU does not count."""


def kernels(tensors, blocks):
    def last(of, default):
        return next((one for one in reversed(blocks) if one.startswith(of)), default)

    inference = last("inference_mode", "") == "inference_mode"
    autocast = last("autocast", "") == "autocast"
    ordinary = any(one["made"] not in ("inside", "clone inside") for one in tensors)
    devices = {one["device"] for one in tensors}
    device = "Meta" if "meta" in devices else "CPU"
    rows = [
        ("FuncTorchBatched", any(one["batched"] for one in tensors)),
        ("AutocastCPU", autocast and device == "CPU"),
        ("Autograd" + device, ordinary and not inference),
        ("ADInplaceOrView", ordinary or not inference),
        (("Sparse" if any(one["layout"] == "sparse" for one in tensors) else "") + device, True),
    ]
    return [name for name, runs in rows if runs]
