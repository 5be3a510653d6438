"""Friction and validation of Gaz et al. 2019: Table I, figures 3 to 5, on a simulated robot with the paper's model."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.signal import butter, sosfiltfilt
from scipy.special import expit

from dynid import Log, Settings, identify
from dynid.base import Diagnostics, Float
from dynid.kernel import inverse_dynamics
from dynid.report.figures import BLUE, GREEN, INK, STEEL, VERMILION, Axis, Figure, Panel, dots, grid_of, line
from dynid.signals import Preparation
from dynid.terms import Offset, Sigmoid, Terms
from dynid_studies.panda import (
    AMPLITUDE,
    PERIOD,
    SIGMOID,
    arm,
    bodies_of_coefficients,
    friction,
    validation_motion,
)
from dynid_studies.study import StudyPage, at_least, at_most, reported, within

RATE, SENSOR_NOISE, SHOWN = 1000.0, 0.1, 10.0
MOST_POINTS = 400
PLATEAUS = (
    (0.2455, 0.3852, 0.3938, 0.5752, 0.3738, 0.1785, 0.2773),
    (0.3006, 0.4871, 0.2469, 0.7042, 0.4653, 0.1245, 0.2876),
)


@dataclass(frozen=True, eq=False)
class Sigmoids:
    """Friction (25) of all joints: phi (3, 7); offset: (7,) N m, a constant that (25) lacks."""

    phi: Float
    offset: Float = field(default_factory=lambda: np.zeros(7))

    def torque(self, dq: Float) -> Float:
        """(T, 7) N m at velocities (T, 7) rad/s."""
        level, slope, shift = self.phi
        return np.asarray(level * (expit(slope * (dq + shift)) - expit(slope * shift)))

    def plateaus(self) -> Float:
        """(2, 7) N m: forward, and backward as a positive number."""
        return np.abs(self.torque(np.array([[1e3] * 7, [-1e3] * 7])))


def fit_sigmoids(
    t: Float, q: Float, dq: Float, excess: Float, cutoff: float | None = None, offset: bool = False
) -> Sigmoids:
    """Friction (25) from what is left of the torque (T, 7): level linear, slope and shift by variable projection.

    cutoff: Hz, None = from the spectrum.    offset: whether each joint gets a constant besides.
    """
    robot = arm()
    preparation = Preparation(velocity="measured", cutoff=cutoff if cutoff is not None else "auto")
    terms = Terms((Sigmoid(), Offset()) if offset else (Sigmoid(),))
    log = Log.from_arrays(robot, t, q, excess, dq)
    result = identify(robot, log, Settings(terms=terms, preparation=preparation), diagnostics=Diagnostics())
    shapes = np.array([shape.value for shape in result.shapes]).reshape(7, 2).T
    level, constant = np.split(result.estimate.full_vector, [7])
    return Sigmoids(np.concatenate([level[None, :], shapes]), constant if offset else np.zeros(7))


def torque_figure(t: Float, measured: Float, rigid: Float | None, whole: Float) -> Figure:
    """Figures 3 and 5: measured and computed torque (T, 7), without friction (None = not shown) and with it."""
    some = slice(None, None, max(len(t) // MOST_POINTS, 1))
    t, measured, whole = t[some], measured[some], whole[some]
    rigid = None if rigid is None else rigid[some]
    panels = []
    for j in range(7):
        traces = [line(t, measured[:, j], "measured", STEEL, 3.0)]
        if rigid is not None:
            traces += [
                line(t, rigid[:, j], "computed without friction", GREEN, 1.1),
                line(t, measured[:, j] - rigid[:, j], "its error", GREEN, 0.9, "dash"),
            ]
        traces += [
            line(t, whole[:, j], "computed with friction", BLUE, 1.1),
            line(t, measured[:, j] - whole[:, j], "error with friction", VERMILION, 0.9, "dot"),
        ]
        panels.append(
            Panel(
                tuple(traces),
                Axis("time, s" if j > 4 else ""),
                Axis("torque, N m" if j % 2 == 0 else ""),
                title=f"joint {j + 1}",
            )
        )
    return grid_of(panels, 2, 900)


def friction_figure(dq: Float, excess: Float, fitted: Sigmoids) -> Figure:
    """Figure 4: what is left of the torque over velocity, the printed curves and those fitted to these points."""
    some = np.linspace(0, len(dq) - 1, 250).astype(int)
    panels = []
    for j in range(7):
        reach = 1.05 * float(np.abs(dq[:, j]).max())
        v = np.linspace(-reach, reach, 301)
        every = np.tile(v[:, None], 7)
        traces = (
            dots(dq[some, j], excess[some, j], "torque less the model's", STEEL, 3.0, 0.6),
            line(v, friction(every)[:, j], "(25) as printed", VERMILION, 2.2),
            line(v, fitted.torque(every)[:, j], "(25) fitted to these points", INK, 1.4, "dash"),
        )
        room = 1.1 * float(np.quantile(np.abs(excess[:, j]), 0.995))
        label = "velocity, rad/s" if j > 4 else ""
        y = Axis("friction, N m" if j % 2 == 0 else "", span=(-room, room))
        panels.append(Panel(traces, Axis(label), y, title=f"joint {j + 1}"))
    return grid_of(panels, 2, 860)


def add_validation(page: StudyPage, best: Float) -> None:
    """Table I, friction found from what is left of the torque, and both forms of the model beside the sensors."""
    page.section("Table I, figures 3 to 5: friction and validation")
    page.text(
        f"""The validation motion (31) on a robot that has the 43 printed coefficients and the printed sigmoids (25);
        its torque sensors have white noise of {SENSOR_NOISE:g} N m. First the rigid model alone, as in figure 3; then
        friction is estimated from the residual: equation (25) is the term `sigmoid`, whose level is linear, while
        slope and shift are estimated by variable projection, so no starting values are needed (the paper: Nelder and
        Mead). The model changes sign smoothly, has plateaus that differ by direction, and vanishes at rest by
        construction. Figure 5 uses the links of the semidefinite program (below) in a recursive Newton-Euler routine.
        The same figures for the real robot are at the end."""
    )
    share = _travel(page)
    q, dq, ddq = validation_motion(2)
    t = np.arange(len(q)) / RATE
    tree = arm().tree
    rigid = inverse_dynamics(tree, bodies_of_coefficients(), q, dq, ddq)
    noise = SENSOR_NOISE * np.random.default_rng(0).normal(size=q.shape)
    sensed = rigid + friction(dq) + noise
    fitted = fit_sigmoids(t, q, dq, sensed - rigid)
    whole = rigid + fitted.torque(dq)
    recursive = inverse_dynamics(tree, best, q, dq, ddq) + fitted.torque(dq)
    low = butter(4, SHOWN, fs=RATE, output="sos")
    half = len(q) // 2
    seen, bare, full, bodies = (sosfiltfilt(low, x, axis=0)[:half] for x in (sensed, rigid, whole, recursive))
    page.figure(
        "figure3",
        f"Figure 3: measured torque and that of the coefficients, along (31), both filtered at {SHOWN:g} Hz",
        torque_figure(t[:half], seen, bare, full),
    )
    page.figure("figure4", "Figure 4: friction by joint", friction_figure(dq, sensed - rigid, fitted))
    page.figure(
        "figure5",
        "Figure 5: measured torque and Newton-Euler torque of bodies with friction, along (31), filtered alike",
        torque_figure(t[:half], seen, None, bodies),
    )
    _friction_table(page, fitted, dq)
    _one_hertz(page, sensed - noise, whole)
    page.results(
        "Validation",
        at_most("table_1", "greatest share of a joint's range that (31) travels", float(share.max()), 1.0),
        within(
            "friction_rest", "greatest friction at rest", float(np.abs(friction(np.zeros((1, 7)))).max()), 0, 1e-12
        ),
        at_most(
            "friction_plateaus",
            "greatest distance of a plateau of the printed (25) from the tabulated one",
            float(np.abs(Sigmoids(SIGMOID).plateaus() - np.array(PLATEAUS)).max()),
            1e-4,
            unit="N m",
        ),
        at_most(
            "friction_fitted",
            "fitted less printed friction, greatest along the motion",
            float(np.abs(fitted.torque(dq) - friction(dq)).max()),
            0.06,
            unit="N m",
        ),
        reported("error_rigid", "relative error without friction, %", _relative(sensed, rigid)),
        reported("error_friction", "relative error with friction, %", _relative(sensed, whole)),
        reported("error_bodies", "relative error of bodies with friction, %", _relative(sensed, recursive)),
        at_least(
            "friction_gain",
            "joint 7: error without friction over error with it",
            _relative(sensed[:, 6:], rigid[:, 6:]) / _relative(sensed[:, 6:], whole[:, 6:]),
            2.0,
        ),
    )  # fmt: skip


def _travel(page: StudyPage) -> Float:
    # Table I and what follows from it; returns the share (7,) of each joint's range.
    limits = arm().limits
    travel = np.abs(AMPLITUDE) * PERIOD / np.pi
    share = travel / (limits.upper - limits.lower)
    page.table(
        "Table I: amplitudes and periods of (31)",
        ("", *(f"joint {j + 1}" for j in range(7))),
        [
            ("amplitude, rad/s (printed)", *map(float, AMPLITUDE)),
            ("period, s (printed)", *map(float, PERIOD)),
            ("travel that follows, rad", *map(float, travel)),
            ("of the joint's range, %", *map(float, 100 * share)),
        ],
        name="table_1",
    )
    return np.asarray(share)


def _friction_table(page: StudyPage, fitted: Sigmoids, dq: Float) -> None:
    rows: list[tuple[str | float, ...]] = []
    for name, ours, printed in zip(("φ₁, N m", "φ₂, s/rad", "φ₃, rad/s"), fitted.phi, SIGMOID, strict=True):
        rows += [(f"{name}: printed", *map(float, printed)), ("ours", *map(float, ours))]
    for name, row, tabulated in zip(
        ("plateau forward, N m", "backward, N m"), fitted.plateaus(), PLATEAUS, strict=True
    ):
        rows += [(f"{name}: printed", *tabulated), ("ours", *map(float, row))]
    page.table(
        "Parameters of (25), and the friction that they make at speed",
        ("", *(f"joint {j + 1}" for j in range(7))),
        rows,
        digits=4,
        note="Slope and shift hang together; curves agree better than parameters.",
        name="friction",
    )


def _one_hertz(page: StudyPage, torque: Float, model: Float) -> None:
    # The paper smooths the measured torque at 1 Hz; joint 7 swings with 0.94 Hz.
    sos = butter(4, 1.0, fs=RATE, output="sos")
    inner = slice(1000, -1000)
    smooth = sosfiltfilt(sos, torque, axis=0)[inner]
    both = sosfiltfilt(sos, model, axis=0)[inner]
    sides = [
        ("measured torque filtered, the model's not", relative_by_joint(smooth, model[inner])),
        ("both filtered", relative_by_joint(smooth, both)),
    ]
    page.table(
        "What the paper's filter of 1 Hz does to a torque without noise: relative error, %",
        ("", *(f"joint {j + 1}" for j in range(7))),
        [(name, *map(float, row)) for name, row in sides],
        note="Joint 7 swings with 0.94 Hz: a filter of 1 Hz takes a good part of its torque away, and all edges of "
        "friction. It does no harm where both sides pass it, as dynid's filters do.",
    )
    worst = [float(row[6]) for _, row in sides]
    page.results(
        "A filter on one side only",
        at_least("one_side", "joint 7, one side filtered, %", worst[0], 10.0),
        at_most("both_sides", "joint 7, both sides filtered, %", worst[1], 3.0),
    )


def relative_by_joint(measured: Float, model: Float) -> Float:
    """Root mean square of the error over that of the torque, (7,) %."""
    error = np.sqrt(((measured - model) ** 2).mean(axis=0))
    size = np.sqrt((measured**2).mean(axis=0))
    return np.asarray(100 * error / size)


def _relative(measured: Float, model: Float) -> float:
    return float(100 * np.sqrt(((measured - model) ** 2).sum() / (measured**2).sum()))
