"""Efforts that lie at the ends of their range: cut off by a limit, or never measured at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place

SATURATED_SHARE = 0.02


def look_at_peaks(
    names: Sequence[str], extreme: Float, shares: Float, moved: Bool, sink: Diagnostics
) -> tuple[Float, Float]:
    """Share of each effort at an end, (n,), and the ends (2, n) that hold more than a fiftieth, nan = fewer.

    extreme: (2, n) greatest effort and greatest negative effort.    shares: (2, n) of the samples that lie there.
    Warns of efforts that are cut off.    Claims: constant-effort, of a joint that moves under one and the same effort.
    """
    cut_off = np.where(shares > SATURATED_SHARE, extreme * np.array([[1.0], [-1.0]]), np.nan)
    for k in np.flatnonzero((cut_off[0] == cut_off[1]) & moved).tolist():
        sink.claim(
            "constant-effort",
            found=f"an effort of {cut_off[0, k]:.4g} throughout, while the joint moves",
            expected="an effort that follows the motion",
            do="map the column that holds this joint's effort under [log], or look at the driver",
            place=Place(joint=names[k]),
        )
    saturated = shares.max(axis=0)
    for k in np.flatnonzero(saturated > SATURATED_SHARE).tolist():
        sink.warn(
            "saturated",
            f"{100 * saturated[k]:.3g} % of the effort lies exactly at its end "
            f"{cut_off[int(np.argmax(shares[:, k])), k]:.4g}: saturated?",
            Place(joint=names[k]),
        )
    return saturated, cut_off
