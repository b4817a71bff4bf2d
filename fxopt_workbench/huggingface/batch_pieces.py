"""Sizes that Python fixes because it goes through a batch piece by piece, opened by taking all pieces at once.

Vision models pack images into one tensor and split it by numbers that they read from another: so many pieces, so many
turns of a loop, and a graph for this number only. Where each piece is treated row by row and all are put together
again, the whole may take the place of the pieces; attention among the rows of each piece is attention under a mask.
Whether that is so for a model is not known here: `auto` compares, on an example with at least two pieces.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.extensions import Adapted
from fxopt_core.verification.isolation import private_copy
from fxopt_workbench.huggingface.positions import places_of_patches, places_of_tokens, windows_of_patches

_SPLITS = (torch.split, torch.Tensor.split, torch.split_with_sizes, torch.Tensor.split_with_sizes)
_ATTENTION = torch.nn.functional.scaled_dot_product_attention
_POSITIONS, _WINDOWS = "get_vision_position_ids", "get_vision_window_index"
_TOKENS = "get_rope_index"
_NEEDED = {"input_ids", "mm_token_type_ids", "image_grid_thw", "video_grid_thw", "attention_mask"}


def opened(adapted: Adapted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Adapted | None:
    """A copy of the model that takes all pieces at once; `None` where it goes through none.

    Args:
        adapted: the model.
        args: positional arguments of the example, which are not changed.
        kwargs: keyword arguments of the example, which are not changed.
    """
    if not isinstance(adapted.model, torch.nn.Module):
        return None
    copied: Any
    copied, args, kwargs = private_copy(adapted.model, args, kwargs)
    pieces = PiecesAtOnce(copied)
    try:
        with torch.no_grad(), pieces:
            copied(*args, **kwargs)
    except Exception:  # it does more with the pieces than this knows of: nothing to offer
        return None
    # Of a single piece the whole is right whatever is done to it.
    if not pieces.reasons or any(int((sizes > 0).sum()) < 2 for sizes in pieces.sizes):
        return None
    copied = private_copy(adapted.model)[0]
    call = functools.partial(_call_at_once, copied, copied.forward)
    call.__signature__ = inspect.signature(copied.forward)  # type: ignore[attr-defined]
    copied.forward = call
    return Adapted(copied, (*adapted.adaptations, *pieces.reasons), adapted.without)


def _call_at_once(model: torch.nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with PiecesAtOnce(model):
        return forward(*args, **kwargs)


class _Numbers(Sequence[int]):
    """What `tolist` gives, not read from the tensor before somebody looks."""

    def __init__(self, tensor: torch.Tensor, pieces: PiecesAtOnce) -> None:
        self.tensor = tensor
        self._pieces = pieces

    def _read(self) -> list[int]:
        with self._pieces.reading():
            return self.tensor.tolist()

    def __len__(self) -> int:
        return len(self._read())

    def __getitem__(self, index: Any) -> Any:
        return self._read()[index]


class PiecesAtOnce(TorchFunctionMode):
    """While active, a split by numbers that come from a tensor gives the whole as the only piece.

    Args:
        model: of which parts that place the tokens of images and text row by row place them at once meanwhile.

    Attributes:
        sizes: of the pieces, for each such split.
        reasons: what was done, in words.
    """

    def __init__(self, model: torch.nn.Module | None = None) -> None:
        super().__init__()
        self._model = model
        self.sizes: list[torch.Tensor] = []
        self.reasons: dict[str, None] = {}
        self._wholes = WeakTensorKeyDictionary()
        self._reading = False
        self._patched = ExitStack()

    def __enter__(self) -> PiecesAtOnce:
        self._patched.enter_context(self._images_at_once(_POSITIONS, self._positions))
        self._patched.enter_context(self._images_at_once(_WINDOWS, self._windows))
        for part in self._model.modules() if self._model is not None else ():
            self._patched.enter_context(self._tokens_at_once(part))
        for kind in (FakeTensor, FunctionalTensor):
            self._patched.enter_context(self._read_later(kind))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patched.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Within, `tolist` is what it always is."""
        before, self._reading = self._reading, True
        try:
            yield
        finally:
            self._reading = before

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Make the call, or what stands for it.

        Raises:
            CaptureError: attention among pieces that is not plain self-attention.
        """
        kwargs = kwargs or {}
        if function is torch.Tensor.tolist:
            return self._numbers(args[0], function)
        if function in _SPLITS:
            tensor, sizes, dim = _arguments_of_split(*args, **kwargs)
            if isinstance(sizes, _Numbers):
                return (self._whole(tensor, sizes.tensor, dim),)
        if function is _ATTENTION and any(one in self._wholes for one in args[:3]):
            return self._attention(*args, **kwargs)
        return function(*args, **kwargs)

    def _numbers(self, tensor: torch.Tensor, read: Callable[[torch.Tensor], Any]) -> Any:
        later = tensor.dim() == 1 and tensor.dtype in (torch.int32, torch.int64) and not self._reading
        return _Numbers(tensor, self) if later else read(tensor)

    @contextmanager
    def _read_later(self, kind: Any) -> Iterator[None]:
        """Within, `tolist` of this class of tensors, which has one of its own, is what it is of others here."""
        read = kind.tolist
        kind.tolist = lambda tensor: self._numbers(tensor, read)
        try:
            yield
        finally:
            kind.tolist = read

    def _whole(self, tensor: torch.Tensor, sizes: torch.Tensor, dim: int) -> torch.Tensor:
        fit = (sizes >= 0).all() & (sizes.sum() == tensor.shape[dim])
        torch._assert_async(fit, "the sizes of the pieces do not add up to that of the whole")
        self.sizes.append(sizes)
        self.reasons["pieces of a batch at once"] = None
        whole = tensor.view_as(tensor)
        self._wholes[whole] = (sizes, dim % tensor.dim())
        return whole

    def _attention(self, query: Any, key: Any, value: Any, attn_mask: Any = None, *rest: Any, **kwargs: Any) -> Any:
        sizes, dims = zip(*(self._wholes.get(one, (None, None)) for one in (query, key, value)), strict=True)
        plain = attn_mask is None and len(rest) < 2 and not kwargs.get("is_causal")
        if not plain or any(one is not sizes[0] for one in sizes) or set(dims) != {query.dim() - 2}:
            raise CaptureError(
                "auto", "attention among pieces is not plain self-attention.", "leave the pieces as they are."
            )
        place = torch.arange(query.shape[-2], device=query.device)
        piece = (place[:, None] >= sizes[0].cumsum(0)).sum(-1)
        self.reasons["attention within pieces by a mask"] = None
        return _ATTENTION(query, key, value, piece[:, None] == piece, *rest, **kwargs)

    def _positions(self, original: Any) -> Any:
        def at_once(grid_thw: Any, merge: Any, include_temporal: bool = False, kwargs: Any = None, **named: Any) -> Any:
            if named or (kwargs or {}).get("position_ids") is not None:
                return original(grid_thw, merge, include_temporal, kwargs, **named)
            self.reasons["places of patches at once"] = None
            return places_of_patches(grid_thw, merge, include_temporal)

        return at_once

    def _windows(self, original: Any) -> Any:
        def at_once(
            grid_thw: Any, spatial_merge_size: int, window_size: int, patch_size: int, kwargs: Any = None
        ) -> Any:
            if (kwargs or {}).get("window_index") is not None:
                return original(grid_thw, spatial_merge_size, window_size, patch_size, kwargs)
            self.reasons["windows of patches at once"] = None
            return windows_of_patches(grid_thw, spatial_merge_size, window_size // spatial_merge_size // patch_size)

        return at_once

    @contextmanager
    def _images_at_once(self, name: str, replacement: Callable[[Any], Any]) -> Iterator[None]:
        """Within, transformers computes this of all images at once, where it goes one by one."""
        original: Any = getattr(sys.modules.get("transformers.vision_utils"), name, None)
        modules = [one for key, one in list(sys.modules.items()) if key.startswith("transformers.") and original]
        holders = [one for one in modules if vars(one).get(name) is original]
        for one in holders:
            setattr(one, name, replacement(original))
        try:
            yield
        finally:
            for one in holders:
                setattr(one, name, original)

    @contextmanager
    def _tokens_at_once(self, part: Any) -> Iterator[None]:
        """Within, a part of Qwen2-VL's kind places the tokens of all rows at once; of videos it is left as it is."""
        original: Any = getattr(part, _TOKENS, None)
        side = getattr(getattr(getattr(part, "config", None), "vision_config", None), "spatial_merge_size", None)
        if original is None or side is None or not _NEEDED.issubset(inspect.signature(original).parameters):
            yield
            return

        def at_once(
            input_ids: Any, mm_token_type_ids: Any, image_grid_thw: Any = None, attention_mask: Any = None, **rest: Any
        ) -> Any:
            if image_grid_thw is None or any(one is not None for one in rest.values()):
                named = {"image_grid_thw": image_grid_thw, "attention_mask": attention_mask}
                return original(input_ids, mm_token_type_ids, **named, **rest)
            self.sizes.append(image_grid_thw[:, 0])
            self.reasons["places of tokens at once"] = None
            places, shift = places_of_tokens(mm_token_type_ids, image_grid_thw, side, attention_mask)
            return places.to(input_ids.dtype), shift

        setattr(part, _TOKENS, at_once)
        try:
            yield
        finally:
            delattr(part, _TOKENS)


def _arguments_of_split(tensor: Any, *rest: Any, dim: int = 0, **sizes: Any) -> tuple[Any, Any, int]:
    every = (*rest, *sizes.values())
    return tensor, every[0], every[1] if len(every) > 1 else dim
