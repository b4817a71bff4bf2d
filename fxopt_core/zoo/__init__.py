"""Models to try things on, built without a download: most small enough for every machine, some as published."""

from fxopt_core.zoo.files import ModelFileError
from fxopt_core.zoo.own import OwnModelError
from fxopt_core.zoo.recipe import ExampleInputs
from fxopt_core.zoo.registry import ModelTooLargeError, UnknownModelError, ZooModel, build, names

__all__ = [
    "ExampleInputs",
    "ModelFileError",
    "ModelTooLargeError",
    "OwnModelError",
    "UnknownModelError",
    "ZooModel",
    "build",
    "names",
]
