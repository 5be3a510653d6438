"""Robots and recorded signals to look at, for the report, pages of logs and motions, and the app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.scene.page import Fragment as Fragment
    from dynid.scene.page import document as document
    from dynid.scene.page import scene_fragment as scene_fragment
    from dynid.scene.page import scene_page as scene_page
    from dynid.scene.scene import Colour as Colour
    from dynid.scene.scene import LinkColour as LinkColour
    from dynid.scene.scene import Scene as Scene
    from dynid.scene.scene import scene_of as scene_of
    from dynid.scene.scene import scene_of_log as scene_of_log
    from dynid.scene.series import motions_of as motions_of
    from dynid.scene.series import series_fragment as series_fragment
    from dynid.scene.still import still_png as still_png
    from dynid.scene.surface import Surface as Surface
    from dynid.scene.surface import outlines as outlines
    from dynid.scene.surface import surface_of as surface_of

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "page": "Fragment document scene_fragment scene_page",
        "scene": "Colour LinkColour Scene scene_of scene_of_log",
        "series": "motions_of series_fragment",
        "still": "still_png",
        "surface": "Surface outlines surface_of",
    },
)
