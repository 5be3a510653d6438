"""A robot to look at: bodies, motion, colours by link; built once for the report, the motion page and the app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.scene.page import Fragment, scene_fragment, scene_page
    from dynid.scene.recorded import scene_of_log
    from dynid.scene.scene import Colour, LinkColour, Scene, scene_of
    from dynid.scene.still import still_png

__all__ = [
    "Colour",
    "Fragment",
    "LinkColour",
    "Scene",
    "scene_fragment",
    "scene_of",
    "scene_of_log",
    "scene_page",
    "still_png",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "page": "Fragment scene_fragment scene_page",
        "recorded": "scene_of_log",
        "scene": "Colour LinkColour Scene scene_of",
        "still": "still_png",
    },
)
