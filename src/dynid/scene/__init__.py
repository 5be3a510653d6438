"""Robots to look at: surfaces, motion and colours by link, for the report, the motion page and the app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.scene.page import Fragment, scene_fragment, scene_page
    from dynid.scene.scene import Colour, LinkColour, Scene, scene_of, scene_of_log
    from dynid.scene.still import still_png
    from dynid.scene.surface import Surface, outlines, surface_of

__all__ = [
    "Colour",
    "Fragment",
    "LinkColour",
    "Scene",
    "Surface",
    "outlines",
    "scene_fragment",
    "scene_of",
    "scene_of_log",
    "scene_page",
    "still_png",
    "surface_of",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "page": "Fragment scene_fragment scene_page",
        "scene": "Colour LinkColour Scene scene_of scene_of_log",
        "still": "still_png",
        "surface": "Surface outlines surface_of",
    },
)
