"""Example inputs for any model of transformers, from the names of its arguments and the sizes in its configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fxopt_workbench.huggingface.coverage.checks import EXAMPLE, Sizes
from fxopt_workbench.huggingface.coverage.families import Shape, family_arguments
from fxopt_workbench.huggingface.coverage.shrinking import IMAGE, SPECIAL_TOKENS, VOCABULARY, Config


@dataclass(frozen=True)
class Plan:
    """How to call a model: its arguments, and for each which of the shapes that the name may stand for.

    Attributes:
        choices: name of the argument → index into its shapes (see `shapes_of`).
        image_tokens: how many tokens of each text stand for pieces of the image.
    """

    choices: tuple[tuple[str, int], ...]
    image_tokens: int = 0


class Maker:
    """Makes the tensors of one call. Values come from the seed: `torch.rand` and friends, on the CPU.

    Args:
        config: of the model.
        sizes: of this call.
        seed: of the values.
        image_tokens: as in `Plan`.
    """

    def __init__(self, config: Config, sizes: Sizes, seed: int, image_tokens: int = 0) -> None:
        self.config = config
        self.sizes = sizes
        self.image_tokens = image_tokens
        self.random = torch.Generator().manual_seed(seed)

    def find(self, *names: str, default: Any = None) -> Any:
        """The first of these attributes that the configuration or one inside it has, the outer ones first."""
        for config in inner_configs(self.config):
            for name in names:
                value = getattr(config, name, None)
                if value is not None:
                    return value
        return default

    def floats(self, *shape: int) -> torch.Tensor:
        """Normally distributed numbers, (batch, *shape)."""
        return torch.randn(self.sizes.batch, *shape, generator=self.random)

    def integers(self, below: int, *shape: int) -> torch.Tensor:
        """Integers from 0 to `below - 1`, (batch, *shape)."""
        return torch.randint(0, max(1, below), (self.sizes.batch, *shape), generator=self.random)

    def repeated(self, row: list[int]) -> torch.Tensor:
        """The same numbers for each example, (batch, len(row))."""
        return torch.tensor([row] * self.sizes.batch)

    def tokens(self) -> torch.Tensor:
        """Ids of ordinary words, (batch, length); the first ones stand for the image, where there is one."""
        vocabulary = min(int(self.find("vocab_size", default=VOCABULARY)), VOCABULARY)
        low = min(10, vocabulary // 2)
        high = vocabulary - SPECIAL_TOKENS if vocabulary == VOCABULARY else vocabulary
        words = self.integers(high - low, self.sizes.length) + low
        image = self.find("image_token_id", "image_token_index")
        if not self.image_tokens or image is None:
            return words
        return self.behind_padding(torch.cat([torch.full((self.sizes.batch, self.pieces), image), words], dim=1))

    def behind_padding(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows that begin with an image, (batch, length); of the last one it begins after the padding on the left."""
        if self.sizes.padding == "left":
            rows[-1] = rows[-1].roll(rows.shape[1] // 3)
        return rows

    @property
    def pieces(self) -> int:
        """How many tokens of each text stand for its image."""
        rows, columns = self.sizes.scale
        return int(self.image_tokens * rows * columns)

    def ones(self, *shape: int) -> torch.Tensor:
        """A mask, (batch, *shape): ones, and zeros in the padding of the last example, if it is to have one.

        That is a third of a text and half of an image, of which coarse features must still see it.
        """
        mask = torch.ones(self.sizes.batch, *shape, dtype=torch.long)
        padding = shape[-1] // (3 if len(shape) == 1 else 2)
        if self.sizes.padding == "right":
            mask[-1, ..., -padding:] = 0
        elif self.sizes.padding == "left":
            mask[-1, ..., :padding] = 0
        return mask.bool() if self.sizes.boolean else mask

    def mask(self) -> torch.Tensor:
        """The mask of the tokens, (batch, length)."""
        return self.ones(self.pieces + self.sizes.length)

    def kinds(self) -> torch.Tensor:
        """Of each token, 1 if it stands for the image, (batch, length)."""
        places = torch.arange(self.pieces + self.sizes.length)
        return self.behind_padding((places < self.pieces).long().repeat(self.sizes.batch, 1))

    def edges(self) -> tuple[int, int]:
        """Height and width of an image."""
        size = self.find("image_size", "img_size", "input_size", "resolution", "pretrain_image_size", default=IMAGE)
        height, width = size[-2:] if isinstance(size, (list, tuple)) else (size, size)
        return int(height * self.sizes.scale[0]), int(width * self.sizes.scale[1])

    def image(self, *before: int) -> torch.Tensor:
        """Pixels, (batch, *before, channels, height, width)."""
        channels = int(self.find("num_channels", "in_channels", "in_chans", default=3))
        return self.floats(*before, channels, *self.edges())

    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches of an image that is given in patches."""
        rows, columns = self.sizes.scale
        return int(4 * rows), int(4 * columns)

    def patches_of_image(self) -> int:
        """How many patches `image` has."""
        patch = int(self.find("patch_size", default=16))
        return (self.edges()[0] // patch) * (self.edges()[1] // patch)

    def patches(self) -> torch.Tensor:
        """Flattened patches of the images, (patches in all, numbers in a patch)."""
        patch = int(self.find("patch_size", default=16))
        channels = int(self.find("in_channels", "in_chans", "num_channels", default=3))
        frames = int(self.find("temporal_patch_size", "patch_temporal", default=1))
        rows, columns = self.grid()
        return self.floats(rows * columns, channels * frames * patch * patch).flatten(0, 1)

    def places(self) -> torch.Tensor:
        """Row and column of each patch, (batch, patches, 2)."""
        rows, columns = self.grid()
        return torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).expand(self.sizes.batch, -1, -1).clone()

    def samples(self) -> int:
        """How many samples a recording has."""
        return 160 * self.sizes.length

    def series(self, *channels: str) -> torch.Tensor:
        """A time series with all the past that its model looks back to, (batch, time[, channels])."""
        time = int(self.find("context_length", default=32))
        if not channels or "num_time_features" in channels:
            time += max(self.find("lags_sequence", default=[0]))
        return self.floats(time, *([int(self.find(*channels, default=1))] if channels else []))

    def channels(self) -> torch.Tensor:
        """A time series of several channels, (batch, time, channels)."""
        return self.series("num_input_channels", "num_channels")

    def frames(self) -> int:
        """How many frames a spectrogram has."""
        return 8 * self.sizes.length

    def steps(self) -> int:
        """The frames of a spectrogram whose length the configuration fixes."""
        return 2 * int(self.find("max_source_positions", default=48))

    def mels(self) -> int:
        """How many numbers a frame has."""
        names = "num_mel_bins input_feat_per_channel feature_size input_feat_size input_dim n_mels mel_dim"
        return int(self.find(*names.split()) or self.find("hidden_size", default=80))

    def hidden(self) -> int:
        """Width of the model."""
        return int(self.find("hidden_size", "d_model", "embed_dim", "n_embd", "hidden_dim", "dim", default=64))


SHAPES: tuple[tuple[str, tuple[Shape, ...]], ...] = (
    (r"input_ids$", (lambda m: m.tokens(),)),
    (r"^(input_features|audio_mel)_mask$|^feature_attention_mask$", (lambda m: m.ones(m.frames()),)),
    (
        r"pixel_mask|pixel_attention_mask|patch_attention_mask",
        (lambda m: m.ones(*m.edges()), lambda m: m.ones(m.grid()[0] * m.grid()[1]), lambda m: m.ones(*m.grid())),
    ),
    # The first token of each text is looked at from everywhere; the padding of the last text is not.
    (r"^global_attention_mask$", (lambda m: m.mask() * (torch.arange(m.mask().shape[1]) == 0).long(),)),
    (r"^bool_masked_pos$", (lambda m: m.integers(2, m.patches_of_image()).bool(),)),
    (r"^perm_mask$", (lambda m: torch.ones(m.sizes.batch, m.sizes.length, m.sizes.length).triu(1),)),
    (r"^input_masks$", (lambda m: m.floats(1, *(4 * one for one in m.grid())),)),
    (r"^visual_attention_mask$", (lambda m: m.ones(5),)),
    (
        r"attention_mask$",
        (lambda m: m.mask(), lambda m: m.ones(m.samples()), lambda m: m.ones(m.frames()), lambda m: m.ones(m.steps())),
    ),
    (
        r"^(padding|input_values)_mask$",
        (lambda m: m.ones(m.samples()), lambda m: m.ones(1, m.samples()), lambda m: m.mask()),
    ),
    (
        r"^pixel_values_videos$",
        (lambda m: m.image(int(m.find("num_frames", "frames_per_clip", default=4))),),
    ),
    (
        r"pixel_values$",
        (
            lambda m: m.image(),
            lambda m: m.image(int(m.find("num_frames", "frames_per_clip", default=2))),
            lambda m: m.patches(),
            lambda m: m.patches().unflatten(0, (m.sizes.batch, -1)),
            lambda m: m.patches().unflatten(1, (3, -1, int(m.find("patch_size", default=16)))),
        ),
    ),
    (
        r"^input_values$",
        (
            lambda m: m.floats(m.samples()),
            lambda m: m.floats(int(m.find("audio_channels", default=1)), m.samples()),
            lambda m: m.floats(int(m.find("max_length", default=96)), m.mels()),
            lambda m: m.tokens(),
            lambda m: m.floats(6 * m.samples()),
        ),
    ),
    (
        r"^input_features$|^audio_mel$",
        (
            lambda m: m.floats(m.mels(), m.frames()),
            lambda m: m.floats(m.frames(), m.mels()),
            lambda m: m.floats(m.mels(), m.steps()),
            lambda m: m.floats(1, m.frames(), m.mels()),
            lambda m: m.floats(1, int(m.find("spec_size", default=64)), m.mels()),
        ),
    ),
    (r"^past_values$", (lambda m: m.channels(), lambda m: m.series())),
    (r"^past_time_features$", (lambda m: m.series("num_time_features"),)),
    (r"^(past_)?observed_mask$", (lambda m: m.ones(*m.series().shape[1:]), lambda m: m.ones(*m.channels().shape[1:]))),
    (
        r"^hidden_states$",
        (lambda m: m.patches(), lambda m: m.floats(m.sizes.length, m.hidden())),
    ),
    (r"^visual_feats$", (lambda m: m.floats(5, int(m.find("visual_feat_dim"))),)),
    (r"^visual_pos$", (lambda m: m.floats(5, 4),)),
    (r"^inputs$", (lambda m: m.floats(m.sizes.length, int(m.find("d_model", default=64))),)),
    (r"^spatial_shapes$", (lambda m: m.repeated(list(m.grid())),)),
    (r"^mm_token_type_ids$", (lambda m: m.kinds(),)),
    (r"grid_thw$", (lambda m: m.repeated([1, *m.grid()]),)),
    (r"^merge_sizes$", (lambda m: torch.ones(m.sizes.batch).long(),)),
    (r"^bbox$", (lambda m: m.integers(50, m.sizes.length, 4) + torch.tensor([0, 0, 50, 50]),)),
    (r"^latents$", (lambda m: m.floats(m.sizes.length, m.hidden()), lambda m: m.floats(m.hidden(), m.sizes.length))),
    (
        r"inputs_embeds$|hidden_states$|_embeds$",
        (lambda m: m.floats(m.sizes.length, m.hidden()),),
    ),
)
"""What the name of an argument says, and the shapes that it may stand for, the likeliest first."""


def inner_configs(config: Config) -> Iterator[Config]:
    """The configuration and all inside it, the outer ones first."""
    waiting = [config]
    while waiting:
        one = waiting.pop(0)
        yield one
        waiting += [value for value in vars(one).values() if hasattr(value, "to_dict") and hasattr(value, "model_type")]


def shapes_of(argument: str, config: Config) -> tuple[Shape, ...]:
    """The shapes that an argument of this name may have; none for a name that no table knows."""
    own = family_arguments(config.model_type).get(argument)
    if own is not None:
        return (own,)
    return next((shapes for pattern, shapes in SHAPES if re.search(pattern, argument)), ())


def make_inputs(config: Config, plan: Plan, sizes: Sizes = EXAMPLE, seed: int = 0) -> dict[str, torch.Tensor]:
    """The keyword arguments of one call, on the CPU.

    Args:
        config: of the model.
        plan: which arguments in which shapes.
        sizes: batch, length, padding.
        seed: of the values.
    """
    maker = Maker(config, sizes, seed, plan.image_tokens)
    return {name: shapes_of(name, config)[index](maker) for name, index in plan.choices}
