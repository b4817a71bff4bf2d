"""What a graph is made of, found from its shape alone: never from the names of modules or nodes."""

from fxopt_workbench.structure.flow import values_in_meta
from fxopt_workbench.structure.parts import Block, Part, Structure, block_name, structure_of
from fxopt_workbench.structure.repeats import Repeat, find_repeats
from fxopt_workbench.structure.stages import Stage, find_stages

__all__ = [
    "Block",
    "Part",
    "Repeat",
    "Stage",
    "Structure",
    "block_name",
    "find_repeats",
    "find_stages",
    "structure_of",
    "values_in_meta",
]
