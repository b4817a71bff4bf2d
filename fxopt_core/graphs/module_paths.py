"""Which module of the model a node comes from."""

from __future__ import annotations

import re
from typing import Any

from torch import fx

_ROOT = re.compile(r"^L\[['\"]\w+['\"]\]\.?|^L__self__+\.?")

Path = tuple[str, ...]


def module_path(node: fx.Node) -> tuple[Path, dict[Path, str]]:
    """Where in the model a node comes from, by `node.meta["nn_module_stack"]`.

    Returns:
        The path of its innermost module (`("layers", "0")`, empty at the top level), and the class
        name of each module on the way.
    """
    stack: dict[str, Any] = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    innermost: Path = ()
    classes: dict[Path, str] = {}
    for path, module_class in stack.values():
        innermost = tuple(part for part in _ROOT.sub("", str(path)).split(".") if part)
        name = module_class if isinstance(module_class, str) else module_class.__name__
        classes[innermost] = name.rpartition(".")[2]
    return innermost, classes
