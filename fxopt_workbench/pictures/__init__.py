"""Pictures of FX graphs, each with a text that says the same."""

from fxopt_workbench.pictures.drawing import draw
from fxopt_workbench.pictures.picture import GraphPicture
from fxopt_workbench.pictures.rendering import PictureError, RendererMissingError, TooLargeToDrawError, render_svg

__all__ = ["GraphPicture", "PictureError", "RendererMissingError", "TooLargeToDrawError", "draw", "render_svg"]
