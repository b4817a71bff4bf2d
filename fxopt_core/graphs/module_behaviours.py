"""What calling an `nn.Module` does, for the modules of `torch.nn` and of passes that are leaves of a graph."""

from __future__ import annotations

from torch import nn
from torch.nn.modules import module as module_globals

from fxopt_core.graphs.behaviours import CHECK, EVERY, OPAQUE, Behaviour
from fxopt_core.graphs.fused_attention import FusedAttention

_FAMILIES = frozenset(
    "activation adaptive batchnorm channelshuffle conv distance dropout flatten fold instancenorm linear loss "
    "normalization padding pixelshuffle pooling rnn sparse upsampling".split()
)
"""The files of `torch.nn.modules` whose classes compute with tensors and hold no other module's code."""

_MAY_RETURN_ITS_INPUT = (
    nn.Identity, nn.Flatten, nn.Unflatten, nn.modules.dropout._DropoutNd, nn.ChannelShuffle, nn.PixelShuffle,
    nn.PixelUnshuffle, nn.RNNBase,
)  # fmt: skip
"""Or a part of it: a recurrence hands on the lengths of a packed sequence."""

_DRAWS_ALWAYS = (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
_DRAWS_IN_TRAINING = (nn.modules.dropout._DropoutNd, nn.RReLU)
_RETURNS_SEVERAL = (nn.RNNBase, nn.MultiheadAttention)
_UPDATES_STATISTICS = (nn.modules.batchnorm._NormBase,)
_RENORMALISES = (nn.Embedding, nn.EmbeddingBag)
_WANTS_A_RANGE = (nn.Embedding, nn.EmbeddingBag, nn.modules.loss._Loss, nn.modules.pooling._MaxUnpoolNd)


_GUARDS_OF_EXPORT = ("torch.export._unlift", "GuardsFn")
"""What `torch.export` puts at the head of a graph: it checks the inputs and returns nothing."""

_HOOKS = (
    "forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks", "forward_hooks_always_called",
)  # fmt: skip


def _is_understood(module: nn.Module) -> bool:
    """Whether calling the module runs the code of `torch.nn` or of a fused operator for it, and nothing else."""
    kind = type(module)
    package, _, file = kind.__module__.rpartition(".")
    if any(getattr(module, f"_{hooks}", None) or getattr(module_globals, f"_global_{hooks}", None) for hooks in _HOOKS):
        return False
    if kind is FusedAttention:
        return True
    if package != "torch.nn.modules" or file not in _FAMILIES or "Lazy" in kind.__name__:
        return False
    if "forward" in vars(module) or not kind.forward.__module__.startswith("torch.nn."):
        return False
    if isinstance(module, nn.TripletMarginWithDistanceLoss):
        return isinstance(module.distance_function, nn.Module) and _is_understood(module.distance_function)
    # The first calls other modules; the second talks to other processes.
    return not isinstance(module, (nn.AdaptiveLogSoftmaxWithLoss, nn.SyncBatchNorm))


def _updates_statistics(module: nn.Module) -> bool:
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        # It hands its statistics on whenever it has any, also where `track_running_stats` was switched off later.
        return module.training or not module.track_running_stats
    return isinstance(module, _UPDATES_STATISTICS) and module.training and module.track_running_stats


def behaviour_of_module(module: nn.Module) -> Behaviour:
    """What a call of `module` does in its present mode; opaque for subclasses, hooks and what is not in the table.

    In place it changes its first argument, whatever that is called: then `writes` is `EVERY`. `statistics` names those
    of its own parameters and buffers that it changes.
    """
    kind = type(module)
    if (kind.__module__, kind.__name__) == _GUARDS_OF_EXPORT:
        return CHECK
    if not _is_understood(module):
        return OPAQUE
    in_place = bool(getattr(module, "inplace", False))
    writes: tuple[str, ...] = ()
    if _updates_statistics(module):
        writes = tuple(name for name, buffer in module.named_buffers() if buffer is not None)
    if isinstance(module, _RENORMALISES) and module.max_norm is not None:
        writes = ("weight",)
    return Behaviour(
        writes=EVERY if in_place else frozenset(),
        aliases=EVERY if in_place or isinstance(module, _MAY_RETURN_ITS_INPUT) else frozenset(),
        random=isinstance(module, _DRAWS_ALWAYS)
        or (module.training and isinstance(module, _DRAWS_IN_TRAINING))
        or (module.training and isinstance(module, _RETURNS_SEVERAL) and bool(module.dropout)),
        raises=isinstance(module, _WANTS_A_RANGE),
        statistics=frozenset(writes),
        container=isinstance(module, _RETURNS_SEVERAL),
    )
