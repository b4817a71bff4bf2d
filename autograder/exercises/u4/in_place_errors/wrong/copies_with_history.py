"""failed on a hidden case

Copies what was saved in a way that autograd records.
"""

import torch
from torch.autograd.graph import saved_tensors_hooks


def diagnose(steps: list, leaves: list[torch.Tensor]) -> tuple[str, int | None]:
    """What happens to a program that writes in place, and the step to blame."""
    saved, give_copies = [], True

    def same(one, other):
        if one is None or other is None:
            return one is other
        return torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)

    def pack(tensor):
        entry = {"tensor": tensor, "version": tensor._version, "copy": tensor.detach().clone(), "read": False}
        saved.append(entry | {"raised": None, "changed": None})
        return saved[-1]

    def unpack(entry):
        entry["read"] = True
        return entry["copy"] if give_copies else entry["tensor"]

    values = [leaf.detach().clone().requires_grad_(leaf.requires_grad) for leaf in leaves]
    asking = [value for value in values if value.requires_grad]
    with saved_tensors_hooks(pack, unpack):
        for number, step in enumerate(steps):
            try:
                values.append(step(values))
            except RuntimeError:
                return "raises when written", number
            for entry in saved:
                if entry["raised"] is None and entry["tensor"]._version != entry["version"]:
                    entry["raised"] = number
                if entry["changed"] is None and not same(entry["tensor"].clone(), entry["copy"]):
                    entry["changed"] = number
    right = torch.autograd.grad(values[-1], asking, retain_graph=True, allow_unused=True)
    give_copies = False
    found = torch.autograd.grad(values[-1], asking, allow_unused=True)
    read = [entry for entry in saved if entry["read"]]
    raised = [entry["raised"] for entry in read if entry["raised"] is not None]
    if raised:
        return "raises in backward", min(raised)
    if all(same(one, other) for one, other in zip(found, right, strict=True)):
        return "fine", None
    return "silent", min(entry["changed"] for entry in read if entry["changed"] is not None)
