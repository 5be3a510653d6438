"""The sections of the report by their anchors."""

from __future__ import annotations

from dynid.report import Section
from dynid.report.sections import SECTIONS


def section(anchor: str) -> Section:
    """The section with an anchor."""
    return next(candidate for candidate in SECTIONS if candidate.anchor == anchor)
