"""requires_grad decides

Takes a tensor that asks for gradients for an ordinary one, wherever it was made.
"""


def kernels(tensors: list[dict], blocks: list[str]) -> list[str]:
    """The kernels that run, in order."""
    within_inference = [block for block in blocks if block.startswith("inference_mode")][-1:] == ["inference_mode"]
    autocast = [block for block in blocks if block.startswith("autocast")][-1:] == ["autocast"]
    ordinary = any(
        tensor["made"] in ("outside", "view inside", "clone outside") or tensor["requires_grad"] for tensor in tensors
    )
    device = "Meta" if any(tensor["device"] == "meta" for tensor in tensors) else "CPU"
    layout = "Sparse" if any(tensor["layout"] == "sparse" for tensor in tensors) else ""
    names = []
    if any(tensor["batched"] for tensor in tensors):
        names.append("FuncTorchBatched")
    if autocast and any(tensor["device"] == "cpu" for tensor in tensors):
        names.append("AutocastCPU")
    if ordinary and not within_inference:
        names.append(f"Autograd{device}")
    if ordinary or not within_inference:
        names.append("ADInplaceOrView")
    return [*names, f"{layout}{device}"]
