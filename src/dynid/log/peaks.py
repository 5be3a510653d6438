"""Efforts that lie at the ends of their range: cut off by a limit, or never measured at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place

SATURATED_SHARE = 0.02
# On a lattice a sine lies 1.4 times as often on its last step as on the one before: more than this is cut off.
GATHERED = 3.0
# From this share of its range on the steps of an effort are worth a warning.
COARSE = 0.02


def look_at_peaks(
    names: Sequence[str],
    extreme: Float,
    shares: Float,
    moved: Bool,
    sink: Diagnostics,
    step: Float | None = None,
    beside: Float | None = None,
) -> tuple[Float, Float]:
    """Share of each effort at an end, (n,), and the ends (2, n) that hold more than a fiftieth, nan = fewer.

    extreme: (2, n) greatest effort and greatest negative effort.    shares: (2, n) of the samples that lie there.
    step: (n,) lattice of the efforts, 0 or None = none.    beside: (2, n) shares on the step next to each end: on a
    coarse lattice samples gather at an end, too.
    Warns of efforts that are cut off, and of coarse ones.
    Claims: constant-effort, of a joint that moves under one and the same effort.
    """
    steps = np.zeros(len(names)) if step is None else step
    span = np.maximum(extreme[0] + extreme[1], 0.0)
    for k in np.flatnonzero((steps > COARSE * span) & (steps > 0) & moved).tolist():
        sink.warn(
            "quantised-effort",
            f"effort in steps of {steps[k]:.3g}, {100 * steps[k] / span[k]:.2g} % of its range: log it finer",
            Place(joint=names[k]),
        )
    gathered = np.where(steps > 0, GATHERED * (np.zeros_like(shares) if beside is None else beside), 0.0)
    least = np.maximum(SATURATED_SHARE, gathered)
    cut_off = np.where(shares > least, extreme * np.array([[1.0], [-1.0]]), np.nan)
    for k in np.flatnonzero((cut_off[0] == cut_off[1]) & moved).tolist():
        sink.claim(
            "constant-effort",
            found=f"an effort of {cut_off[0, k]:.4g} throughout, while the joint moves",
            expected="an effort that follows the motion",
            do="map the column that holds this joint's effort under [log], or look at the driver",
            place=Place(joint=names[k]),
        )
    saturated = shares.max(axis=0)
    for k in np.flatnonzero(np.isfinite(cut_off).any(axis=0)).tolist():
        sink.warn(
            "saturated",
            f"{100 * saturated[k]:.3g} % of the effort lies exactly at its end "
            f"{cut_off[int(np.argmax(shares[:, k])), k]:.4g}: saturated?",
            Place(joint=names[k]),
        )
    return saturated, cut_off
