"""Figures of Chavez-Olivares et al. 2012: the arm, parameters over time, positions and torques."""

from __future__ import annotations

import numpy as np

from dynid.base import Float
from dynid.report.figures import (
    BLUE,
    CYCLE,
    GREEN,
    STEEL,
    VERMILION,
    Axis,
    Figure,
    Panel,
    column_of,
    level_line,
    line,
    row_of,
)
from dynid.signals import Samples
from dynid.simulation.open_loop import OpenLoop
from dynid_studies.outline import outline
from dynid_studies.rotradi import JOINTS, LENGTH, NAMES, THETA, arm
from dynid_studies.rotradi_schemes import Fit

# Figure 2 in four parts, by size: indices of parameters that one scale shows.
PARTS = {
    "a": ((0, 1, 9, 11, 13), "inertias of the whole arm, and gravity"),
    "b": ((2, 3, 4, 5, 12, 14), "smaller inertias and moments"),
    "c": ((6, 7, 8, 10), "smallest ones"),
    "d": ((15, 16, 17, 18, 19, 20), "friction"),
}


def scheme_figure() -> Figure:
    """Figure 8: the arm's frames from the side, hanging at zero and lifted."""
    poses = ((np.zeros(3), "all angles zero"), (np.array([0.0, 0.9, 0.7]), "q2 = 0.9, q3 = 0.7"))
    panels = [outline(arm(), q, tip=(LENGTH, 0.0, 0.0), title=name) for q, name in poses]
    return row_of(panels, 380)


def evolution(fit: Fit, part: str) -> Figure:
    """Figure 2: parameters over time, with the true values as dotted lines; theta_14 is scaled by 0.1 as in print."""
    indices, _ = PARTS[part]
    scale = np.where(np.arange(21) == 13, 0.1, 1.0)
    t, value = fit.trajectory.t, np.asarray(fit.trajectory.value) * scale
    traces = tuple(
        line(t, value[:, i], NAMES[i] if i != 13 else "0.1 θ₁₄", CYCLE[k % 8], 1.4)
        for k, i in enumerate(indices)
    )
    true = [float(scale[i] * THETA[i]) for i in indices]
    room = 0.35 * (max([*true, 0.0]) - min([*true, 0.0]))
    span = (min([*true, 0.0]) - room, max([*true, 0.0]) + room)
    shapes = tuple(level_line(x) for x in true)
    return row_of([Panel(traces, Axis("time, s"), Axis("parameter, SI units", span=span), shapes)], 260)


def eigenvalues(fit: Fit) -> Figure:
    """Figure 3: all 21 eigenvalues of P over time; greatest, median and least in colour."""
    t, values = fit.trajectory.t, fit.trajectory.eigenvalues
    count = values.shape[1]
    others = tuple(
        line(t, values[:, i], "others", STEEL, 0.5)
        for i in range(count)
        if i not in (0, count // 2, count - 1)
    )
    reported = ((0, "greatest", VERMILION), (count // 2, "median", BLUE), (count - 1, "least", GREEN))
    traces = tuple(line(t, values[:, i], name, colour, 1.6) for i, name, colour in reported)
    return row_of([Panel((*others, *traces), Axis("time, s"), Axis("eigenvalues of P", log=True))], 280)


def positions(run: OpenLoop, samples: Samples) -> Figure:
    """Figures 4 and 6: measured and simulated positions of an open-loop run, rad."""
    return column_of(
        [
            Panel(
                (
                    line(samples.t, samples.q[:, j], "measured", STEEL, width=3.2),
                    line(run.t, run.q[:, j], "simulated", VERMILION, width=1.2),
                ),
                Axis("time, s" if j == 2 else ""),
                Axis(f"{name}, rad", most_ticks=4),
            )
            for j, name in enumerate(JOINTS)
        ],
        460,
    )


def torques(samples: Samples, model: Float) -> Figure:
    """Figures 5 and 7: applied torque and what a model computes from the measured motion, (T, 3) N m."""
    return column_of(
        [
            Panel(
                (
                    line(samples.t, samples.tau[:, j], "applied", STEEL, width=3.2),
                    line(samples.t, model[:, j], "computed", VERMILION, width=0.9),
                ),
                Axis("time, s" if j == 2 else ""),
                Axis(f"{name}, N m", span=_span(samples.tau[:, j]), most_ticks=4),
            )
            for j, name in enumerate(JOINTS)
        ],
        460,
    )


def _span(torque: Float) -> tuple[float, float]:
    room = 0.25 * float(np.ptp(torque))
    return float(torque.min()) - room, float(torque.max()) + room
