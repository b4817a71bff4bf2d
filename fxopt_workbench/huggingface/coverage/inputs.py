"""Example inputs for any model of transformers, from the names of its arguments and the sizes in its configuration."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fxopt_workbench.huggingface.coverage.shrinking import IMAGE, SPECIAL_TOKENS, VOCABULARY, Config


@dataclass(frozen=True)
class Sizes:
    """What varies from call to call.

    Attributes:
        batch: how many examples.
        length: tokens of a text. A spectrogram has 8 frames a token, a recording 160 samples.
        padded: whether the attention mask is 0 for the last third of the last text.
    """

    batch: int = 2
    length: int = 12
    padded: bool = False


EXAMPLE = Sizes()
OTHERS = (Sizes(3, 20), Sizes(3, 12), Sizes(2, 20))
"""Other batch and length; for models that themselves refuse that, one of the two."""


@dataclass(frozen=True)
class Plan:
    """How to call a model: its arguments, and for each which of the shapes that the name may stand for.

    Attributes:
        choices: name of the argument → index into its shapes (see `shapes_of`).
        image_tokens: how many tokens of each text stand for pieces of the image.
    """

    choices: tuple[tuple[str, int], ...]
    image_tokens: int = 0


class UnknownArgumentError(ValueError):
    """An argument that has to be given has a name that says nothing."""


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
        return torch.cat([torch.full((self.sizes.batch, self.image_tokens), image), words], dim=1)

    def mask(self) -> torch.Tensor:
        """Ones, (batch, length); the last third of the last text is padding if asked for."""
        mask = torch.ones(self.sizes.batch, self.image_tokens + self.sizes.length, dtype=torch.long)
        if self.sizes.padded:
            mask[-1, -(self.sizes.length // 3) :] = 0
        return mask

    def image(self, *before: int) -> torch.Tensor:
        """Pixels, (batch, *before, channels, height, width)."""
        size = self.find("image_size", "img_size", "input_size", "resolution", "pretrain_image_size", default=IMAGE)
        height, width = size[-2:] if isinstance(size, (list, tuple)) else (size, size)
        channels = int(self.find("num_channels", "in_channels", "in_chans", default=3))
        return self.floats(*before, channels, int(height), int(width))

    def patches(self) -> torch.Tensor:
        """Flattened patches of images of 4 × 4 patches, (16 * batch, numbers in a patch)."""
        patch = int(self.find("patch_size", default=16))
        channels = int(self.find("in_channels", "in_chans", "num_channels", default=3))
        frames = int(self.find("temporal_patch_size", default=1))
        return self.floats(16, channels * frames * patch * patch).flatten(0, 1)

    def series(self, *channels: str) -> torch.Tensor:
        """A time series with all the past that its model looks back to, (batch, time[, channels])."""
        time = int(self.find("context_length", default=32))
        if not channels or "num_time_features" in channels:
            time += max(self.find("lags_sequence", default=[0]))
        return self.floats(time, *([int(self.find(*channels, default=1))] if channels else []))

    def frames(self) -> int:
        """How many frames a spectrogram has."""
        return 8 * self.sizes.length

    def mels(self) -> int:
        """How many numbers a frame has."""
        names = "num_mel_bins input_feat_per_channel feature_size input_feat_size input_dim n_mels mel_dim hidden_size"
        return int(self.find(*names.split(), default=80))

    def hidden(self) -> int:
        """Width of the model."""
        return int(self.find("hidden_size", "d_model", "embed_dim", "n_embd", "hidden_dim", "dim", default=64))


Shape = Callable[[Maker], torch.Tensor]

SHAPES: tuple[tuple[str, tuple[Shape, ...]], ...] = (
    (r"input_ids$", (lambda m: m.tokens(),)),
    (
        r"^(input_features|audio_mel)_mask$",
        (lambda m: m.repeated([1] * m.frames()),),
    ),
    (
        r"pixel_mask|pixel_attention_mask",
        (lambda m: torch.ones_like(m.image()[:, 0]).long(), lambda m: m.repeated([1] * 16)),
    ),
    (r"attention_mask$", (lambda m: m.mask(),)),
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
            lambda m: m.patches().unflatten(0, (m.sizes.batch, 16)),
        ),
    ),
    (
        r"^input_values$",
        (
            lambda m: m.floats(160 * m.sizes.length),
            lambda m: m.floats(int(m.find("audio_channels", default=1)), 160 * m.sizes.length),
            lambda m: m.floats(int(m.find("max_length", default=96)), m.mels()),
            lambda m: m.tokens(),
        ),
    ),
    (
        r"^input_features$|^audio_mel$",
        (
            lambda m: m.floats(m.mels(), m.frames()),
            lambda m: m.floats(m.frames(), m.mels()),
            lambda m: m.floats(m.mels(), 2 * int(m.find("max_source_positions", default=48))),
            lambda m: m.floats(1, m.frames(), m.mels()),
            lambda m: m.floats(1, int(m.find("spec_size", default=64)), m.mels()),
        ),
    ),
    (r"^past_values$", (lambda m: m.series("num_input_channels", "num_channels"), lambda m: m.series())),
    (r"^past_time_features$", (lambda m: m.series("num_time_features"),)),
    (r"^past_observed_mask$", (lambda m: torch.ones_like(m.series()),)),
    (
        r"^hidden_states$",
        (lambda m: m.patches(), lambda m: m.floats(m.sizes.length, m.hidden())),
    ),
    (r"^visual_feats$", (lambda m: m.floats(5, int(m.find("visual_feat_dim"))),)),
    (r"^visual_pos$", (lambda m: m.floats(5, 4),)),
    (r"^inputs$", (lambda m: m.floats(m.sizes.length, int(m.find("d_model", default=64))),)),
    (r"^spatial_shapes$", (lambda m: m.repeated([4, 4]),)),
    (r"^mm_token_type_ids$", (lambda m: (m.mask().cumsum(1) <= m.image_tokens).long(),)),
    (r"grid_thw$", (lambda m: m.repeated([1, 4, 4]),)),
    (r"^merge_sizes$", (lambda m: torch.ones(m.sizes.batch).long(),)),
    (r"^bbox$", (lambda m: m.integers(50, m.sizes.length, 4) + torch.tensor([0, 0, 50, 50]),)),
    (
        r"inputs_embeds$|hidden_states$|_embeds$|^latents$",
        (lambda m: m.floats(m.sizes.length, m.hidden()),),
    ),
)
"""What the name of an argument says, and the shapes that it may stand for, the likeliest first."""

WANTED = (
    *("attention_mask", "decoder_input_ids", "input_features", "input_features_mask", "pixel_values", "image_grid_thw"),
    *("mm_token_type_ids", "bbox", "visual_feats", "visual_pos"),
)
"""Arguments that are given although a model could do without: they are what it is for."""

NEXT_TO_TEXT = ("input_features", "input_features_mask", "pixel_values", "image_grid_thw", "mm_token_type_ids")
"""Those of them that are left out if the model cannot be called with all."""


def inner_configs(config: Config) -> Iterator[Config]:
    """The configuration and all inside it, the outer ones first."""
    waiting = [config]
    while waiting:
        one = waiting.pop(0)
        yield one
        waiting += [value for value in vars(one).values() if hasattr(value, "to_dict") and hasattr(value, "model_type")]


def shapes_of(argument: str) -> tuple[Shape, ...]:
    """The shapes that an argument of this name may have; none for a name that the table does not know."""
    return next((shapes for pattern, shapes in SHAPES if re.search(pattern, argument)), ())


def plans(model: torch.nn.Module) -> Iterator[Plan]:
    """Ways to call the model, the fullest first.

    Raises:
        UnknownArgumentError: an argument that has to be given has a name that no table knows.
    """
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    unknown = [name for name in required if not shapes_of(name)]
    if unknown:
        raise UnknownArgumentError(f"no example is known for the arguments {', '.join(unknown)}")
    main = getattr(model, "main_input_name", "input_ids")
    first = [main] if isinstance(main, str) and main in parameters and shapes_of(main) else []
    least = list(dict.fromkeys(first + required))
    wanted = [name for name in WANTED if name in parameters and name not in least]
    text = any(name.endswith("input_ids") for name in least)
    if not text:
        wanted = [name for name in wanted if name != "attention_mask"]
        if "input_ids" in parameters:
            wanted.insert(0, "input_ids")
    seen = set()
    for names in (least + wanted, least + [name for name in wanted if name not in NEXT_TO_TEXT], least):
        if tuple(names) not in seen:
            seen.add(tuple(names))
            for indices in itertools.islice(itertools.product(*(range(len(shapes_of(name))) for name in names)), 12):
                yield Plan(tuple(zip(names, indices, strict=True)))


def make_inputs(config: Config, plan: Plan, sizes: Sizes = EXAMPLE, seed: int = 0) -> dict[str, torch.Tensor]:
    """The keyword arguments of one call, on the CPU.

    Args:
        config: of the model.
        plan: which arguments in which shapes.
        sizes: batch, length, padding.
        seed: of the values.
    """
    maker = Maker(config, sizes, seed, plan.image_tokens)
    return {name: shapes_of(name)[index](maker) for name, index in plan.choices}
