"""A stretch of a graph that forgets what it saved for backward, and computes it again when backward needs it."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.fx import traceback
from torch.utils.checkpoint import CheckpointPolicy, checkpoint


class RecomputedRegion(nn.Module):
    """Runs a stretch of a graph; where gradients are recorded, only its inputs are kept for backward.

    Autograd records the first run as it always does, so views, in-place writes, hooks, unused results and gradients
    of gradients are those of the unchanged graph. Only what the first run *saves* is dropped, and made again by a
    second run in backward (torch's non-reentrant `checkpoint`): from the same inputs, with the random state and the
    autocast state of the first run. Inputs are watched: backward raises if one was overwritten meanwhile, or was given
    other memory by `.data = …`. A write *through* `.data` (`weight.data.add_(1)`) nobody can see, which is what `.data`
    is for: backward then works with the new values, as after torch's own `checkpoint`.

    While AOTAutograd traces a graph, the nodes of the stretch come into it one by one, marked so that its partitioner
    has backward recompute them, draws of random numbers from a saved state among them.

    Args:
        body: the stretch, which returns a tuple of what is used after it. It holds no parameters and buffers of its
            own: they are inputs. Modules that it calls belong to the graph around it.
        written: numbers of the inputs that it writes. Its second run writes copies, made before the first.
        draws: whether it draws from the random stream.
    """

    def __init__(self, body: fx.GraphModule, written: tuple[int, ...], draws: bool) -> None:
        super().__init__()
        # In a tuple, where it is no submodule: the modules that it calls are registered in the graph around it.
        self.body = (body,)
        self.written = written
        self.draws = draws

    def forward(self, *inputs: Any) -> Any:
        """What the stretch computes."""
        (body,) = self.body
        if torch.compiler.is_dynamo_compiling():
            # Dynamo knows a plain `checkpoint`, and none that copies what is written.
            return body(*inputs) if self.written else checkpoint(body, *inputs, use_reentrant=False)
        if torch._guards.TracingContext.try_get() is not None:
            with traceback.preserve_node_meta():
                return fx.Interpreter(body).run(*inputs)
        # Transforms of torch.func know no tensors that are packed for backward.
        if not torch.is_grad_enabled() or torch._C._functorch.peek_interpreter_stack() is not None:
            return body(*inputs)
        own = {number: inputs[number] for number in self.written}
        rest = {number: value for number, value in enumerate(inputs) if number not in own}
        memory = {_memory(value) for value in own.values()}
        if any(value.requires_grad for value in own.values()) or memory & set(map(_memory, rest.values())):
            return body(*inputs)
        before = {number: value.clone() for number, value in own.items()}
        again = False
        # The weights of modules within are inputs like any others: whoever overwrites them must be told.
        watched = [*rest.values(), *body.parameters(), *body.buffers()]
        addresses = list(map(_address, watched))

        def run(*given: Any) -> Any:
            nonlocal again
            if again and list(map(_address, given)) != addresses:
                raise RuntimeError(
                    "a tensor that is needed for gradient computation was given other memory (by .data = …) between "
                    "the forward and the backward pass, and the values before are not kept: they are computed again."
                )
            mine = {number: value.clone() for number, value in before.items()} if again else own
            again = True
            values = dict(zip(rest, given, strict=False)) | mine
            return body(*(values[number] for number in range(len(inputs))))

        return checkpoint(run, *watched, use_reentrant=False, preserve_rng_state=self.draws)


def mark_for_partitioner(node: fx.Node, number: int) -> None:
    """Let AOTAutograd's partitioner recompute a node, which belongs to region `number`, in backward."""
    node.meta["recompute"] = CheckpointPolicy.PREFER_RECOMPUTE
    node.meta["ac_graph_id"] = number


def _address(value: Any) -> int | None:
    return value.data_ptr() if isinstance(value, torch.Tensor) else None


def _memory(value: Any) -> int | None:
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None
