"""The inputs that a captured model is compared with eager on: what each differs in from the example."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """What varies from call to call.

    Attributes:
        batch: how many examples.
        length: tokens of a text. A spectrogram has 8 frames a token, a recording 160 samples.
        padding: where every mask is 0: in a third of the last example at its `right` or `left` end, or nowhere (`""`).
        boolean: whether masks are of `torch.bool` instead of integers.
        scale: by how much height and width of images are multiplied.
    """

    batch: int = 2
    length: int = 20
    padding: str = ""
    boolean: bool = False
    scale: tuple[float, float] = (1, 1)


EXAMPLE = Sizes()
"""Two examples, so that no size is 1, and more tokens than any window of a shrunk model (see `shrinking.WINDOW`)."""

CHECKS: dict[str, tuple[Sizes, ...]] = {
    "example": (EXAMPLE,),
    "new_values": (EXAMPLE,),
    "other_sizes": (Sizes(3, 17), Sizes(3, 20), Sizes(2, 17)),
    "one_example": (Sizes(batch=1),),
    "larger_sizes": (Sizes(5, 47), Sizes(5, 20), Sizes(2, 47)),
    "other_images": (Sizes(scale=(1.5, 1.5)), Sizes(scale=(2, 2))),
    "wide_images": (Sizes(scale=(1.5, 2)), Sizes(scale=(1, 2))),
    "padded_mask": (Sizes(padding="right"),),
    "left_padding": (Sizes(padding="left"),),
    "bool_mask": (Sizes(padding="right", boolean=True),),
}
"""Check → the inputs that belong to it, in order of preference: the first that the model itself takes are compared."""

OTHER_DTYPES = ("bool_mask",)
"""Checks whose inputs have another dtype than the example. A graph is for one dtype, so to refuse them is no fault."""

CHECKS_MEAN = (
    "A check is made where the model itself takes its inputs eagerly. New values have the sizes of the example "
    "(two examples of 20 tokens); other sizes are another batch and length, larger sizes larger ones, one example "
    "is a batch of one; other images are larger, wide ones larger and not square. Padding is a third of the last "
    "text, and half of the last image, in every mask that the model heeds. Masks of torch.bool are of another "
    "dtype than the example's; a graph is for one dtype, so to refuse them is shown and costs no verdict."
)
"""What the columns of a table mean."""
