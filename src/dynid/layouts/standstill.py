"""Logs of a robot that stands still: neither units nor anything else can be told of them, and nothing identified."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynid.layouts.decision import Refusal
from dynid.layouts.excerpt import ROWS, Excerpt
from dynid.layouts.measured_motion import MeasuredMotion
from dynid.layouts.names import Family
from dynid.layouts.unit_kinds import widest
from dynid.log.checks import MOVED


def standstill(look: Excerpt, chosen: Mapping[str, Family], motion: MeasuredMotion | None) -> Refusal | None:
    """Why nothing is to be asked of a log in which no joint moves; None where one does, or may in rows further on."""
    if "position" not in chosen:
        return None
    q = look.table(chosen["position"].columns)
    # Of the usual units a radian is the largest.
    scale = 1.0 if motion is None else motion.units.scale
    scale = scale if isinstance(scale, float) and np.isfinite(scale) else 1.0
    most = scale * widest(q)
    if len(q) >= ROWS or most > MOVED:
        return None
    rows = f"{len(q)} rows"
    return Refusal(
        f"no joint that moves in this log ('{chosen['position'].template}', {rows})",
        "motion",
        "record an exciting motion; poses at rest, in rows far apart, are for `dynid statics`",
        "standstill",
        unfit=True,
    )
