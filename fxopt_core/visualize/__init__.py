"""Pictures of FX graphs, each with a text that says the same."""

from fxopt_core.visualize.drawing import draw
from fxopt_core.visualize.picture import GraphPicture
from fxopt_core.visualize.rendering import RendererMissingError, render_svg

__all__ = ["GraphPicture", "RendererMissingError", "draw", "render_svg"]
