"""Figures of Chavez-Olivares et al. 2012: positions and torques, joint above joint."""

from __future__ import annotations

import numpy as np

from dynid.arrays import Float
from dynid.report.figures import INK, VERMILION, Axis, Figure, Panel, column_of, line
from dynid.signals.samples import Samples
from dynid.simulate.open_loop import OpenLoop
from dynid.studies.rotradi import JOINTS


def positions(run: OpenLoop, samples: Samples) -> Figure:
    """Measured and simulated positions of an open-loop run, rad."""
    return column_of(
        [
            Panel(
                (
                    line(samples.t, samples.q[:, j], "measured", INK, width=1.6),
                    line(run.t, run.q[:, j], "simulated", VERMILION, dash="dash"),
                ),
                Axis("time, s" if j == 2 else ""),
                Axis(name),
            )
            for j, name in enumerate(JOINTS)
        ],
        420,
    )


def torques(samples: Samples, model: Float) -> Figure:
    """Applied torque and what a model computes from the measured motion, (T, 3) N m."""
    return column_of(
        [
            Panel(
                (
                    line(samples.t, model[:, j], "computed", VERMILION, width=0.8),
                    line(samples.t, samples.tau[:, j], "applied", INK, width=1.4),
                ),
                Axis("time, s" if j == 2 else ""),
                Axis(name, span=_span(samples.tau[:, j])),
            )
            for j, name in enumerate(JOINTS)
        ],
        420,
    )


def _span(torque: Float) -> tuple[float, float]:
    room = 0.25 * float(np.ptp(torque))
    return float(torque.min()) - room, float(torque.max()) + room
