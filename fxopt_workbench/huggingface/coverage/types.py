"""The model types of the installed transformers, and the class that each is built with."""

from __future__ import annotations

import functools
from typing import Any

AUTO_CLASSES = ("MODEL_MAPPING", "MODEL_FOR_PRETRAINING_MAPPING", "MODEL_FOR_BACKBONE_MAPPING")
"""The mappings of transformers that are asked first: the bare model, without a head. Then all others, in order."""


def require_transformers() -> Any:
    """The module `transformers`.

    Raises:
        ModuleNotFoundError: it is not installed; the message says what to do.
    """
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "coverage is measured on the models of transformers, which is not installed: pip install 'fxopt[hf]'."
        ) from error
    return transformers


@functools.cache
def _class_names() -> dict[str, str]:
    """Model type → name of the model class."""
    require_transformers()
    from transformers.models.auto import modeling_auto

    mappings = [name for name in vars(modeling_auto) if name.startswith("MODEL_") and name.endswith("MAPPING_NAMES")]
    first = [f"{name}_NAMES" for name in AUTO_CLASSES]
    found: dict[str, str] = {}
    for mapping in first + sorted(set(mappings) - set(first)):
        for model_type, names in getattr(modeling_auto, mapping).items():
            found.setdefault(model_type, names if isinstance(names, str) else names[0])
    return found


def model_types() -> tuple[str, ...]:
    """Every model type that has a configuration and a model class, in alphabetical order.

    Raises:
        ModuleNotFoundError: transformers is not installed.
    """
    return tuple(sorted(set(_class_names()) & set(require_transformers().CONFIG_MAPPING)))


def model_class(model_type: str) -> Any:
    """The class of a model type: the bare model where there is one, else the first head that is mapped."""
    transformers = require_transformers()
    return getattr(transformers, _class_names()[model_type])
