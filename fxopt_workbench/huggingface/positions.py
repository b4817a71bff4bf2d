"""Places of patches and tokens, computed for all images and rows at once where transformers goes one by one."""

from __future__ import annotations

import torch


def places_of_patches(grids: torch.Tensor, merge: int | torch.Tensor, temporal: bool) -> torch.Tensor:
    """Where in its image each patch is, as `transformers.vision_utils.get_vision_position_ids` says it.

    Args:
        grids: frames, rows and columns of each image, `[images, 3]`.
        merge: side of the squares of patches that stand together; for each image, `[images]`, or for all.
        temporal: whether to tell the frame too.

    Returns:
        (frame,) row and column, `[patches, 2 or 3]`.
    """
    counts = grids.prod(-1)
    image = torch.repeat_interleave(counts)
    side = merge[image] if isinstance(merge, torch.Tensor) else merge
    _, rows, columns = grids[image].unbind(-1)
    place = torch.arange(image.shape[0], device=grids.device) - (counts.cumsum(0) - counts)[image]
    within = place % (rows * columns)
    square, inside = within // (side * side), within % (side * side)
    across = columns // side
    row, column = square // across * side + inside // side, square % across * side + inside % side
    return torch.stack([place // (rows * columns), row, column] if temporal else [row, column], dim=-1)


def windows_of_patches(grids: torch.Tensor, merge: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """In which order patches go by windows, as `transformers.vision_utils.get_vision_window_index` says it.

    Args:
        grids: frames, rows and columns of patches of each image, `[images, 3]`.
        merge: side of the square of patches that stand together.
        side: of a window, in such squares.

    Returns:
        Index of each square, window by window, `[squares]`, and how many patches come before each window and at the
        end, int32 `[windows + 1]`.
    """
    frames, rows, columns = grids[:, 0], grids[:, 1] // merge, grids[:, 2] // merge
    counts = frames * rows * columns
    image = torch.repeat_interleave(counts)
    place = torch.arange(image.shape[0], device=grids.device) - (counts.cumsum(0) - counts)[image]
    down, across = (rows + side - 1) // side, (columns + side - 1) // side
    windows = frames * down * across
    rows, columns, down, across = rows[image], columns[image], down[image], across[image]
    frame, row, column = place // (rows * columns), place // columns % rows, place % columns
    window = (windows.cumsum(0) - windows)[image] + (frame * down + row // side) * across + column // side
    window, order = window.sort(stable=True)
    _, sizes = torch.unique_consecutive(window, return_counts=True)
    ends = torch.nn.functional.pad(sizes.cumsum(0), (1, 0)) * merge**2
    return order, ends.to(torch.int32)


def places_of_tokens(
    kinds: torch.Tensor, grids: torch.Tensor, merge: int, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each token is, as `get_rope_index` of Qwen2-VL and its kin in transformers says it for text and images.

    Text goes on by one in all three axes. An image begins where the text before it ended and goes on by frame, row and
    column; what follows it begins after its longer side (Wang et al. 2024, "Qwen2-VL", section 2.1, M-RoPE).

    Args:
        kinds: of each token, 0 for text and 1 for images, `[rows, length]`.
        grids: frames, rows and columns of patches of each image, in the order of the images, `[images, 3]`.
        merge: side of the square of patches that gives one token.
        mask: nonzero for what is no padding, `[rows, length]`; `None` where nothing is.

    Returns:
        The places, `[3, rows, length]`, 0 for padding, and by how much the next place is off the number of tokens,
        `[rows, 1]`.

    Raises:
        RuntimeError: the tokens of an image are not as many as its grid says, a row has none, or a token is neither
            of text nor of an image.
    """
    present = torch.ones_like(kinds, dtype=torch.bool) if mask is None else mask.bool()
    order = torch.argsort((~present).to(torch.int8), dim=1, stable=True)
    kinds, here = kinds.gather(1, order), present.gather(1, order)
    image = here & (kinds == 1)
    changes = kinds[:, 1:] != kinds[:, :-1]
    begins = here & torch.nn.functional.pad(changes, (1, 0), value=True)
    ends = here & torch.nn.functional.pad(changes | ~here[:, 1:], (0, 1), value=True)

    number = (begins & image).flatten().cumsum(0).view_as(kinds) - 1
    frames, high, wide = grids[number.clamp(min=0)].unbind(-1)
    rows, columns = high // merge, wide // merge
    side = torch.maximum(high, wide) // merge

    index = torch.arange(kinds.shape[1], device=kinds.device).expand_as(kinds)
    within = index - torch.where(begins, index, 0).cummax(1).values
    fits = ~(ends & image) | (within + 1 == frames * rows * columns)
    known = ~here | (kinds == 0) | (kinds == 1)
    torch._assert_async((fits & known).all() & here[:, 0].all(), "the tokens do not fit the grids of the images")

    advance = torch.where(image, torch.where(begins, side, 0), here)
    start = advance.cumsum(1) - torch.where(image, side, here)
    rows, columns = rows.clamp(min=1), columns.clamp(min=1)
    inside = torch.stack([within // (rows * columns), within // columns % rows, within % columns])
    places = torch.where(here, start + torch.where(image, inside, 0), 0)
    shift = places.amax((0, 2)) + 1 - here.sum(1)
    return torch.zeros_like(places).scatter(2, order.expand_as(places), places), shift.unsqueeze(1)
