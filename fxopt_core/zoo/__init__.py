"""Models to try things on, small enough for every machine and built without a download."""

from fxopt_core.zoo.registry import UnknownModelError, ZooModel, build, names

__all__ = ["UnknownModelError", "ZooModel", "build", "names"]
