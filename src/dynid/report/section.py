"""Interface of report sections, and the page on which they are rendered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from jinja2 import Environment
from markupsafe import Markup

from dynid.base.pages import environment
from dynid.estimate.scores import Origin
from dynid.report.figures import Figure
from dynid.report.text import number, short, unit
from dynid.run.result import Identification, Validation

if TYPE_CHECKING:
    from dynid.scene.scene import Scene

__all__ = ["Page", "Section"]

TEMPLATES = Path(__file__).parent / "templates"


class Section(Protocol):
    """A section of the report. To add one, write a class with these members and list it in SECTIONS.

    Attributes
    ----------
    anchor : str
        Address within the page.
    title : str
        Heading and entry in the table of contents.

    """

    anchor: str
    title: str

    def render(self, identification: Identification, page: Page) -> Markup:
        """HTML of the section without its heading; figures are added to the page."""
        ...


class Page:
    """Collects the figures and scenes of one page while its sections are rendered."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, Any]] = {}
        self.scene_style = self.scene_script = ""

    def scene(self, scene: Scene, label: str, follows: str = "") -> Markup:
        """Add a robot in 3-D; returns the HTML of its place.

        Parameters
        ----------
        scene : Scene
            The robot and its motion.
        label : str
            Text for screen readers.
        follows : str
            Name of a synchronised time axis (see `column_of`) on which a line marks the time of the scene.

        Returns
        -------
        Markup

        """
        from dynid.scene.page import scene_fragment

        part = scene_fragment(scene, label, follows=follows)
        self.scene_style, self.scene_script = part.style, part.script
        return Markup(part.html)  # noqa: S704  (escaped by `scene_fragment`)

    def figure(self, figure: Figure, label: str) -> Markup:
        """Add a figure; returns the HTML of its place.    label: text for screen readers."""
        name = f"figure-{len(self.figures) + 1}"
        self.figures[name] = figure.plain()
        return Markup(
            '<div class="plot" id="{}" role="img" aria-label="{}" style="height:{}px"></div>'
        ).format(name, label, figure.height)

    def tabs(self, tabs: list[tuple[str, str, Markup]]) -> Markup:
        """Tabs, of which one is shown: entries (label, kind, content), kind "held-out", "training" or ""."""
        return render("tabs.html.jinja", {"tabs": tabs})


def render(template: str, context: Mapping[str, object]) -> Markup:
    """Render a template of this package; everything in the context that is not Markup is escaped."""
    return Markup(_environment().get_template(template).render(context))  # noqa: S704  (autoescaped by Jinja2)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return environment(TEMPLATES, number=number, short=short, unit=unit)


def is_held_out(validation: Validation) -> bool:
    """Whether the scores are on held-out data."""
    return validation.scores.origin is not Origin.TRAINING


def data_sets(identification: Identification) -> list[tuple[str, str, Validation]]:
    """All scored data as (label, kind, validation): held-out data first, then training."""
    labelled = []
    counts: dict[str, int] = {}
    total = [str(v.scores.origin) for v in identification.validations]
    for validation in identification.validations:
        origin = str(validation.scores.origin)
        counts[origin] = counts.get(origin, 0) + 1
        label = origin.capitalize() + (f" {counts[origin]}" if total.count(origin) > 1 else "")
        kind = "held-out" if is_held_out(validation) else "training"
        labelled.append((label if kind == "held-out" else "Training data, scored again", kind, validation))
    return [*labelled, ("Training", "training", identification.training)]


def worst_held_out(identification: Identification) -> tuple[str, Validation] | None:
    """Label and scores of the held-out data with the largest error; None if nothing was held out."""
    held_out = [(label, v) for label, kind, v in data_sets(identification) if kind == "held-out"]
    return max(held_out, key=lambda pair: np.nan_to_num(pair[1].scores.total_relative), default=None)


def effort_unit(identification: Identification, joint: int) -> str:
    """Unit of a joint's effort."""
    return "N" if identification.robot.prismatic[joint] else "N m"


def position_unit(identification: Identification, joint: int) -> str:
    """Unit of a joint's position."""
    return "m" if identification.robot.prismatic[joint] else "rad"
