"""Ways to call any model of transformers, to be tried in order."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator

import torch

from fxopt_workbench.huggingface.coverage.families import family_arguments
from fxopt_workbench.huggingface.coverage.inputs import Plan, shapes_of
from fxopt_workbench.huggingface.coverage.shrinking import Config


class UnknownArgumentError(ValueError):
    """An argument that has to be given has a name that says nothing."""


WANTED = (
    *("attention_mask", "decoder_input_ids", "input_features", "input_features_mask", "pixel_values", "image_grid_thw"),
    *("mm_token_type_ids", "bbox", "visual_feats", "visual_pos"),
)
"""Arguments that are given although a model could do without: they are what it is for."""

NEXT_TO_TEXT = ("input_features", "input_features_mask", "pixel_values", "image_grid_thw", "mm_token_type_ids")
"""Those of them that are left out if the model cannot be called with all."""


def plans(model: torch.nn.Module) -> Iterator[Plan]:
    """Ways to call the model, the fullest first.

    Raises:
        UnknownArgumentError: an argument that has to be given has a name that no table knows.
    """
    config: Config = model.config
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    unknown = [name for name in required if not shapes_of(name, config)]
    if unknown:
        raise UnknownArgumentError(f"no example is known for the arguments {', '.join(unknown)}")
    main = getattr(model, "main_input_name", "input_ids")
    first = [main] if isinstance(main, str) and main in parameters and shapes_of(main, config) else []
    family = [name for name in family_arguments(config.model_type) if name in parameters]
    least = list(dict.fromkeys(first + required + family))
    wanted = [name for name in WANTED if name in parameters and name not in least]
    text = any(name.endswith("input_ids") for name in least)
    if not text:
        wanted = [name for name in wanted if name != "attention_mask"]
    if "input_ids" in parameters and "input_ids" not in least:
        wanted.insert(0, "input_ids")
    seen = set()
    for names in (least + wanted, least + [name for name in wanted if name not in NEXT_TO_TEXT], least):
        if tuple(names) not in seen:
            seen.add(tuple(names))
            for indices in itertools.islice(
                itertools.product(*(range(len(shapes_of(name, config))) for name in names)), 16
            ):
                yield Plan(tuple(zip(names, indices, strict=True)))
