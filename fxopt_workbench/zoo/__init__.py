"""Models to try things on, built without a download: most small enough for every machine, some as published."""

from fxopt_workbench.zoo.files import ModelFileError
from fxopt_workbench.zoo.own import OwnModelError
from fxopt_workbench.zoo.recipe import ExampleInputs
from fxopt_workbench.zoo.registry import ModelTooLargeError, UnknownModelError, ZooModel, build, names

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
