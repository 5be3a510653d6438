"""Findings of a diagnosis as plain data, and their constructor of dynid before 0.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from warnings import warn

import numpy as np

from dynid.base.diagnostics import Curve, Evidence, Finding, Interval, Level
from dynid.base.errors import Place


def finding_to_dict(finding: Finding) -> dict[str, Any]:
    """Plain data of a finding with evidence."""
    evidence = finding.evidence
    return {
        "identifier": finding.code,
        **{name: str(getattr(finding, name)) for name in ("level", "joint", "title", "text", "advice")},
        **{name: getattr(evidence, name) for name in ("share", "p_value", "masked")},
        "times": [vars(interval) for interval in evidence.times],
        "curve": None if evidence.curve is None else dict(vars(evidence.curve)),
    }


def finding_from_dict(data: Mapping[str, Any]) -> Finding:
    """A finding from plain data."""
    curve = data["curve"]
    if curve is not None:
        arrays = {key: np.array(curve[key], dtype=np.float64) for key in ("x", "y", "beside")}
        curve = Curve(**{**curve, **arrays})
    times = tuple(Interval(**interval) for interval in data["times"])
    return _finding(**{**data, "times": times, "curve": curve})


def ResidualFinding(*texts: Any, **named: Any) -> Finding:
    """Make a Finding with the arguments of dynid before 0.2: identifier, level, joint, title, text, advice, share, ...

    Deprecated: write `Finding(level, code, text, Place(joint=...), title=..., advice=..., evidence=Evidence(...))`.
    """
    warn(
        "ResidualFinding is deprecated: write dynid.base.Finding with Evidence",
        DeprecationWarning,
        stacklevel=2,
    )
    return _finding(*texts, **named)


def _finding(
    identifier: str, level: Level, joint: str, title: str, text: str, advice: str, *figures: Any, **more: Any
) -> Finding:
    place, evidence = Place(joint=joint or None), Evidence(*figures, **more)
    return Finding(level, identifier, text, place, title=title, advice=advice, evidence=evidence)
