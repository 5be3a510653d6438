"""Torque of the Panda in two forms: recursive with bodies, and linear in coefficients."""

from __future__ import annotations

import time

import numpy as np

from dynid.base import Float
from dynid.factor import structural_base
from dynid.kernel import inverse_dynamics
from dynid.report.figures import CYCLE, VERMILION, Axis, Panel, bars, row_of
from dynid.rows import TorqueRows
from dynid.signals import Samples
from dynid_studies.panda import C6Z, RIGID, arm, bodies_of_coefficients, feasible_set, validation_motion
from dynid_studies.study import StudyPage, at_most


def add_torques(page: StudyPage, best: Float) -> None:
    """Torque of published and retrieved bodies against that of the coefficients, and the cost of both forms."""
    page.section("Newton-Euler with bodies, or Lagrange with coefficients")
    page.text(
        """Coefficients are sufficient for the torque, but a recursive Newton-Euler routine needs links. Links with
        zero cost give the same torque to rounding. The published links do not have the published coefficients, so
        their torque differs, most in the last joint. The difference is shown along the validation motion (31), Table
        I, with that of the links from the convex program."""
    )
    robot = arm()
    q, dq, ddq = validation_motion()
    wanted = inverse_dynamics(robot.tree, bodies_of_coefficients(), q, dq, ddq)
    sets = {
        "published": feasible_set(),
        "published, c6z corrected": feasible_set(C6Z),
        "semidefinite program": best,
    }
    share = {
        name: _relative(inverse_dynamics(robot.tree, theta, q, dq, ddq), wanted)
        for name, theta in sets.items()
    }
    page.table(
        "Difference from the torque of the 43 coefficients, rms, % of the torque's rms",
        ("bodies", *(f"joint {j + 1}" for j in range(7))),
        [(name, *map(float, values)) for name, values in share.items()],
        name="torques",
    )
    x = np.arange(1.0, 8.0)
    panel = Panel(
        (
            bars(x - 0.2, share["published"], np.full(7, 0.36), "published bodies", CYCLE[0]),
            bars(x + 0.2, share["semidefinite program"], np.full(7, 0.36), "semidefinite program", VERMILION),
        ),
        Axis("joint", labels=tuple("1234567")),
        Axis("difference, %", log=True, span=(0.1, 200.0)),
    )
    page.figure("torques", "Torque of bodies against that of the coefficients", row_of([panel], 260))
    gap, recursive, explicit = _two_forms(best, q, dq, ddq)
    page.table(
        "Time of a sample",
        ("form", "µs"),
        [("Newton-Euler", 1e6 * recursive), ("coefficients", 1e6 * explicit)],
        note="Of the machine that made this page.",
    )
    page.results(
        "Two forms of one torque",
        at_most(
            "newton_euler", "Newton-Euler against coefficients of the same bodies", gap, 1e-10, unit="N m"
        ),
        at_most(
            "bodies_torque",
            "worst joint of the program's bodies over that of the published ones",
            float(share["semidefinite program"].max() / share["published"].max()),
            1.0,
        ),
    )


def _two_forms(theta: Float, q: Float, dq: Float, ddq: Float) -> tuple[float, float, float]:
    # Greatest difference, and seconds a sample of both.
    robot = arm()
    base = structural_base(robot, RIGID, TorqueRows())
    beta = base.reduce(theta)
    started = time.perf_counter()
    recursive = inverse_dynamics(robot.tree, theta, q, dq, ddq)
    middle = time.perf_counter()
    panels = RIGID.torque_regressor(robot, Samples.from_motion(q, dq, ddq), base.mask)
    place = np.full(len(theta), -1)
    place[base.independent] = np.arange(base.rank)
    lines = zip(panels.columns, panels.values, strict=True)
    explicit = np.stack([beta[place[columns]] @ values for columns, values in lines], axis=1)
    ended = time.perf_counter()
    return float(np.abs(recursive - explicit).max()), (middle - started) / len(q), (ended - middle) / len(q)


def _relative(torque: Float, wanted: Float) -> Float:
    size = np.sqrt((wanted**2).mean(axis=0))
    return np.asarray(
        100 * np.sqrt(((torque - wanted) ** 2).mean(axis=0)) / np.where(size > 1e-9, size, np.nan)
    )
