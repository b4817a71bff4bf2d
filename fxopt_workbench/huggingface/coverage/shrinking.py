"""A configuration made small, whatever model it is of.

A size is known by its name: the table says what each kind of size becomes. Equal names get equal sizes, so what had
to agree still agrees: a hidden size of 128 is four heads of 32. Lists of one entry a layer keep one layer of each kind.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, TypeGuard

from torch.utils._pytree import tree_leaves, tree_map

Config = Any
"""A `PreTrainedConfig` of transformers, which this module does not need to import."""

WIDTH = 128
HEADS = 4
VOCABULARY = 100
SPECIAL_TOKENS = 20
"""Ids from `VOCABULARY - SPECIAL_TOKENS` on stand for the special tokens of the vocabulary as it was."""

WINDOW = 8
"""Tokens that local attention looks back to, less than those of the example (see `checks.EXAMPLE`)."""

WIDTHS = (WIDTH, 2 * WIDTH, WIDTH // 2, WIDTH // HEADS)
PATCHES = 4
"""Patches along the edge of an image."""
IMAGE = 16 * PATCHES
"""Edge of an image in pixels."""

SIZES: tuple[tuple[str, int | None], ...] = (
    (r"topk_group|n_group$|num_expert_group|n_groups$", 1),
    (r"upsample_groups", WIDTH),
    # What is no size, or is small already and has to agree with a kernel or a stride.
    (r"feat_extract|kernel|stride|padding|dilation|groups?$|_ratio$|^seed$|rate$|temperature", None),
    (r"coefficient|cost|theta|num_labels|sampling|chunk_size_feed_forward", None),
    (r"num_channels|in_chans|^in_channels$|num_mel_bins|n_mels|mel_bins|num_stages|feature_levels|_factor$", None),
    (r"^num_encoder_blocks$", None),  # stages, for each of which other lists have an entry
    (r"experts_per_tok(en)?$|moe_k$|moe_topk$|num_selected_experts|top_k_experts", 2),
    (r"experts?$|num_local_experts|n_routed_experts", 4),
    (r"(^|_)vocab(_size)?$|vocab_size", VOCABULARY),
    (r"(key_value|kv)_heads$|num_query_groups", 2),
    (r"heads?$|^attention_heads$", HEADS),
    (r"head_dim$|^d_kv$|^d_head$|dim_head$|head_size$|kv_channels|rotary_dim", WIDTH // HEADS),
    (r"(layers?|blocks?|depth)$|^n_layer|num_hidden_groups", 2),
    (r"intermediate|ffn|mlp_dim|mlp_hidden|d_ff|d_inner|feedforward|ff_dim|inner_dim", 2 * WIDTH),
    (r"lora_rank|lowrank|num_pos_feats", WIDTH // 2),
    (r"max_position|n_positions|max_seq|n_ctx|max_(source|target)_positions|position_embeddings$", 128),
    (r"max_text_length", 8),
    (r"^context_length$", 256),
    (r"sliding_window|window_size|attention_window|chunk_size|local_attention|block_size|_window$", WINDOW),
    (r"num_queries|num_proposals|num_latents|num_query_tokens|num_codevectors|codebook_size", 16),
    (r"hidden_(size|dim|channels)|d_model|embed_dim|n_embd|embedding_(size|dim)|^dim$|^width$|_dim$|_width$", WIDTH),
    (r"_channels$|_size_per|projection_size|num_filters|_units$|decoder_hid|lru_width|_embed$|conv_dim", WIDTH),
)
"""What the name of a number says (first match counts), and what the number becomes if it is larger."""

MISSING = dict.fromkeys(("n_group", "topk_group", "n_shared_experts"), 1)
MISSING |= dict.fromkeys(("num_experts_per_tok", "top_k_experts"), 2)
MISSING |= dict.fromkeys(("n_routed_experts", "num_experts"), 4)
MISSING |= dict.fromkeys(("image_token_index", "image_token_id", "video_token_index"), VOCABULARY - 1)
MISSING |= {"vocab_size": VOCABULARY, "context_length": 16, "prediction_length": 8}
"""Sizes that some configurations leave to whoever trains the model."""

MISSING_WIDTHS = {"head_dim": WIDTH // HEADS, "num_key_value_heads": HEADS, "moe_intermediate_size": 2 * WIDTH}
"""The same, where the size depends on how far the widths are shrunk."""

LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "encoder_layers", "decoder_layers")
TOKEN = re.compile(r"(token|bos|eos|pad|sep|cls|mask|image|video|audio|start|end|boi|eoi|unk|blank)\w*_(ids?|index)$")


REBUILT = 3
"""The level whose configurations compute again what follows from their sizes."""


class Shrinker:
    """Makes one configuration and all inside it small, the same number in the same way everywhere.

    Args:
        level: 0 shrinks everything; 1 divides all widths by 8 and leaves the numbers of heads; 2 leaves the widths and
            the sizes of images. The gentler levels are for models whose widths depend on each other in their own way.
            3 shrinks as 0 does; the configuration is then made again (see `rebuilt`).
    """

    def __init__(self, level: int) -> None:
        self.level = level % REBUILT
        self.tokens: dict[int, int] = {}

    def shrink(self, config: Config) -> None:
        """Make `config` small, in place."""
        kept = self._kept_layers(config) or self._output_layers(config)
        sizes = {name: value for name, value in vars(config).items() if _is_size(value)}
        heads = sizes.get("num_attention_heads", HEADS)
        width = sizes.get("head_dim") or sizes.get("hidden_size", WIDTH) // heads
        layers = next((sizes[name] for name in LAYER_COUNTS if name in sizes), None)
        patch = sizes.get("patch_size")
        for name, value in list(vars(config).items()):
            if name.startswith("_"):
                continue
            if hasattr(value, "to_dict") and hasattr(value, "model_type"):
                self.shrink(value)
                continue
            new: Any
            try:
                missing = MISSING if self.level else MISSING | MISSING_WIDTHS
                if value is None and name in missing:
                    new = missing[name]
                elif name.endswith("num_key_value_heads") and _is_size(value):
                    grouped = value != sizes.get(name.replace("key_value", "attention"))
                    new = value if self.level else min(value, HEADS // 2 if grouped else HEADS)
                elif isinstance(value, dict):
                    new = self._rope(value, width)
                else:
                    new = self._value(name, value, kept, layers, patch)
                if name == "qk_head_dim" and not self.level:
                    new = 2 * WIDTH // HEADS  # one part that is turned, one that is not
                if new is not value:
                    setattr(config, name, new)
            except (AttributeError, NotImplementedError):
                continue  # a property that follows from another size

    def _value(self, name: str, value: Any, kept: list[int], layers: int | None, patch: Any) -> Any:
        if isinstance(value, (list, tuple)) and kept and len(value) == layers and len(value) > 2:
            return type(value)(value[index] for index in kept)
        if name in LAYER_COUNTS and kept:
            return len(kept)
        if name == "window_size" and _is_size(value) and patch is not None and self.level < 2:
            # In pixels, or in patches of which the last stage of a pyramid has 2 × 2.
            return PATCHES * patch if value >= PATCHES * patch else min(value, 2)
        if TOKEN.search(name):
            return self._token(value)
        if re.search(r"image_size|img_size|input_size$|^crop_size$|^resolution$", name) and self.level < 2:
            return self._image(value, patch)
        if re.search(r"image_embedding_size$|feature_sizes$", name) and self.level < 2:
            return _maps(value)
        if isinstance(value, (list, tuple)) and value and all(_is_size(one) for one in value):
            return type(value)(self._list(name, list(value), layers))
        return self._number(name, value) if _is_size(value) else value

    def _number(self, name: str, value: int) -> int:
        target = next((target for pattern, target in SIZES if re.search(pattern, name)), None)
        if target is None or value <= target:
            return value
        if self.level and target in WIDTHS:
            return self._divided(value)
        return value if self.level and "head" in name else target

    def _divided(self, value: int) -> int:
        """A width at the gentler levels: all divided by the same number, so that sums and products still agree."""
        return value // 8 if self.level == 1 and value % 8 == 0 else value

    def _list(self, name: str, values: list[int], layers: int | None) -> list[int]:
        if name == "blocks_per_stage":
            return [min(value, 2) for value in values]
        if name == "global_attention_blocks":
            return [4]  # the second one of the third stage; the first of a stage has to attend within windows
        if re.search(r"depths|num_blocks|layers$|repeats|num_layers", name) and "out_" not in name:
            return [min(value, 2) for value in values]
        if re.search(r"heads", name):
            return values if self.level else [min(value, 2) for value in values]
        if name.startswith("window_block_ind") and layers and 0 < len(values) < layers:
            return [0]  # one block attends within windows, the other to everything
        if re.search(r"indices|indexes|_layers$", name) and layers:
            return sorted({min(value, 1) for value in values})
        if re.search(r"sizes|channels|dims?$|planes|widths|filters", name) and "kernel" not in name:
            if self.level:
                return [self._divided(value) for value in values]
            return [max(8, value // 8 // 8 * 8) if value > 8 else value for value in values]
        return values

    def _token(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self._token(one) for one in value)
        if not _is_size(value) or value < VOCABULARY - SPECIAL_TOKENS:
            return value
        place = len(self.tokens) % SPECIAL_TOKENS
        return self.tokens.setdefault(value, VOCABULARY - SPECIAL_TOKENS + place)

    def _image(self, value: Any, patch: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self._image(one, patch) for one in value)
        if not _is_size(value) or value <= IMAGE:
            return value
        return PATCHES * patch if _is_size(patch) and patch >= 8 else IMAGE

    def _rope(self, value: dict[str, Any], width: int) -> dict[str, Any]:
        """Rotary embeddings: time, height and width share out half of what is turned of a head of the new width."""
        nested = {key: self._rope(one, width) if isinstance(one, dict) else one for key, one in value.items()}
        if "rope_type" not in value or self.level == 2:
            return nested
        width = width // 8 if self.level else min(width, WIDTH // HEADS)
        half = int(width * (value.get("partial_rotary_factor") or 1)) // 2
        return nested | {"mrope_section": [half - 2 * (3 * half // 8), 3 * half // 8, 3 * half // 8]}

    @staticmethod
    def _output_layers(config: Config) -> list[int]:
        """As many layers as a backbone has outputs, where each layer may be one; they become its outputs."""
        stages = list(getattr(config, "stage_names", None) or ())
        layers = vars(config).get("num_hidden_layers")
        if not _is_size(layers) or len(stages) != layers + 1:
            return []
        count = max(2, len(config.out_indices or ()))
        config.stage_names = stages[: count + 1]
        config.set_output_features_output_indices(out_features=stages[1 : count + 1], out_indices=None)
        return list(range(count))

    @staticmethod
    def _kept_layers(config: Config) -> list[int]:
        """One layer of each kind, where the configuration lists a kind for each layer."""
        kinds = [
            value
            for name, value in vars(config).items()
            if "layer" in name and isinstance(value, (list, tuple)) and value and isinstance(value[0], str)
        ]
        if not kinds or len({len(one) for one in kinds}) != 1 or len(kinds[0]) <= 2:
            return []
        first: dict[tuple[str, ...], int] = {}
        for index, kind in enumerate(zip(*kinds, strict=True)):
            first.setdefault(kind, index)
        chosen = sorted(first.values())
        return chosen if len(chosen) > 1 else [0, 1]


def rebuilt(config: Config) -> Config:
    """The configuration made again by its own constructor, from the sizes that it was shrunk to.

    So it computes again what follows from other sizes, such as the width of a state from that of the model. A number
    that the constructor finds by itself, where none is given, is left to it.

    Raises:
        Exception: whatever the configuration's own validation raises.
    """
    given: dict[str, Any] = {}
    for one in fields(type(config)):
        if not one.init or one.name not in vars(config):
            continue
        value = getattr(config, one.name)
        found_by_itself = one.default is None or isinstance(one.default, str)
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            given[one.name] = rebuilt(value)
        elif not (found_by_itself and _is_size(value)) or TOKEN.search(one.name):
            given[one.name] = value
    return type(config)(**given)


def _maps(value: Any) -> Any:
    """Edges of maps of features, the coarsest of which has one feature a patch."""
    edges = tree_leaves(value)
    if not all(map(_is_size, edges)) or min(edges, default=0) <= PATCHES:
        return value
    return tree_map(lambda edge: edge * PATCHES // min(edges), value)


def _is_size(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
