"""Pictures of FX graphs, each with a text that says the same."""

from fxopt_core.visualize.drawing import draw
from fxopt_core.visualize.picture import GraphPicture
from fxopt_core.visualize.rendering import (
    PictureError,
    RendererMissingError,
    TooLargeToDrawError,
    render_svg,
)

__all__ = ["GraphPicture", "PictureError", "RendererMissingError", "TooLargeToDrawError", "draw", "render_svg"]
