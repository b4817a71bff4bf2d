"""What a graph is made of, found from its shape alone: never from the names of modules or nodes."""

from fxopt_workbench.structure.flow import values_in_meta
from fxopt_workbench.structure.repeats import Repeat, find_repeats
from fxopt_workbench.structure.stages import Stage, find_stages

__all__ = ["Repeat", "Stage", "find_repeats", "find_stages", "values_in_meta"]
