"""Loads: known ones on some trajectories, unknown ones carried at times, and loads missing from the robot file."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import UsageError
from dynid.base.numerics import chi_squared_tail
from dynid.base.records import dataclass
from dynid.kernel import Panels, inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.spatial.inertia import from_com, to_com
from dynid.terms.channel import channel
from dynid.terms.exports import Column, Kind, Of, Scale, Symbol, Traits, empty_panels
from dynid.terms.forms import energy_form, known_energy, known_momentum, known_torque, momentum_form
from dynid.terms.residual_tests import LARGE_ERROR, Declared, FitAnalysis, Hypothesis, TermWords
from dynid.terms.rigid_body import INERTIAL_SYMBOLS, INERTIAL_UNITS, RigidBody
from dynid.terms.term import Term

# Standard deviations of a link in the robot file: 30 % of mass and inertia, 30 % and 2 cm (m) of its centre of mass.
UNSURE, UNSURE_CENTRE = 0.3, 0.02
# Chance of a false alarm, and least mass of a load in standard deviations.
LOAD_CHANCE, LOAD_SIGNIFICANCE = 1e-6, 2.0
# Share of the difference from the robot file that a load has to explain.
LOAD_EXPLAINED = 0.5


def _load_notices(fit: FitAnalysis) -> Iterator[Hypothesis]:
    """Notice about a load that explains most of the difference between a reliable fit and the robot file."""
    if float(np.median(fit.missed)) > LARGE_ERROR:
        return
    load = find_load(fit)
    if load is not None and load.sure and load.explained >= LOAD_EXPLAINED:
        yield Hypothesis(
            Finding(
                Level.DOUBT,
                "payload",
                f"link '{load.body}' about {load.mass:.2g} +- {2 * load.std:.1g} kg heavier than in the robot file "
                "(a tool or a load)",
                advice="leave it on if the model is to contain it; else remove it, or declare it (a [[fixed]] part, a "
                "link of the robot file, or known_payload)",
            ),
            "the links of the robot file",
            declared=Declared(load=fit.robot.body_names.index(load.body)),
            lesser=Level.WARNING,
        )


@dataclass(frozen=True)
class KnownPayload(Term):
    """Torque of a known load on a link, on trajectories that match a pattern; without unknown parameters.

    Attributes
    ----------
    inertia : tuple of ten float
        Inertial parameters about the joint frame of the link.
    body : str
        Name of the link; "" = the last one.
    trajectories : str
        Shell pattern of trajectory names; "*" = all.

    """

    inertia: tuple[float, ...]
    body: str = ""
    trajectories: str = "*"
    name: str = "known_payload"
    traits = Traits(Kind.LOG, scale=Scale.FIXES)
    words = TermWords(against_description=_load_notices)

    def __post_init__(self) -> None:
        if len(self.inertia) != 10 or not np.isfinite(self.inertia).all():
            raise UsageError(
                "payload-inertia",
                found=f"inertia = {list(self.inertia)}",
                expected="ten finite numbers: m, mcx, ..., Izz",
            )

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """No columns, since everything is known."""
        return ()

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Panels without columns."""
        return empty_panels(robot, samples)

    def _inertia(self, robot: RobotModel, samples: Samples) -> Float | None:
        # Links (nb, 10) of the load alone; None on trajectories without it.
        if not fnmatchcase(samples.trajectory, self.trajectories):
            return None
        inertia = np.zeros((robot.n_bodies, 10))
        inertia[_carrier(robot, self.body)] = self.inertia
        return inertia


@known_torque.register(KnownPayload)
def _(term: KnownPayload, robot: RobotModel, samples: Samples) -> Float | None:
    """Inverse dynamics of the load alone."""
    inertia = term._inertia(robot, samples)
    if inertia is None:
        return None
    q, dq, ddq = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    return np.ascontiguousarray(inverse_dynamics(robot.tree, inertia, q, dq, ddq) @ robot.projection)


@known_momentum.register(KnownPayload)
def _(term: KnownPayload, robot: RobotModel, samples: Samples) -> tuple[Float, Float] | None:
    """Momentum of the load alone, and the remainder of its torque."""
    inertia = term._inertia(robot, samples)
    if inertia is None:
        return None
    columns = np.asarray(inertia.ravel() != 0)
    P, R = momentum_form(RigidBody(), robot, samples, columns)
    return _torque(P, inertia.ravel()), _torque(R, inertia.ravel())


@known_energy.register(KnownPayload)
def _(term: KnownPayload, robot: RobotModel, samples: Samples) -> tuple[Float, Float] | None:
    """Energy of the load alone."""
    inertia = term._inertia(robot, samples)
    if inertia is None:
        return None
    columns = np.asarray(inertia.ravel() != 0)
    h, _ = energy_form(RigidBody(), robot, samples, columns)
    return inertia.ravel()[columns] @ h, np.zeros((len(samples), robot.n))


def _carrier(robot: RobotModel, body: str) -> int:
    # Index of the link that carries a load; "" = the last one.
    if body and body not in robot.body_names:
        raise UsageError(
            "unknown-body", found=f"link '{body}'", expected="one of " + ", ".join(robot.body_names)
        )
    return robot.body_names.index(body) if body else robot.n_bodies - 1


def _torque(panels: Panels, values: Float) -> Float:
    # Panels times values of all parameters, (T, n).
    return np.stack(
        [values[c] @ lines for c, lines in zip(panels.columns, panels.values, strict=True)], axis=1
    )


@dataclass(frozen=True)
class Load:
    """A load on a link that is missing from the robot file.

    Attributes
    ----------
    body : str
        Name of the link.
    mass, std : float, kg
        Mass and its standard deviation.
    p_value : float
        Test of no load.
    explained : float
        Share of the difference between robot file and estimate that it explains, 0 to 1.

    """

    body: str
    mass: float
    std: float
    p_value: float
    explained: float

    @property
    def sure(self) -> bool:
        """Whether the load is significant and its mass significantly positive."""
        return self.p_value < LOAD_CHANCE and self.mass > LOAD_SIGNIFICANCE * self.std


def find_load(fit: FitAnalysis) -> Load | None:
    """Estimate the load on one of the outermost links that best explains the difference from the robot file.

    d = beta - B pi0 is the difference in base parameters, with the covariance C = cov(beta) + B S B', where S is the
    uncertainty of the robot file. A load pi on a link with the columns J of B is the least-squares solution of J pi = d
    in the metric of C. Its gain is tested against chi-square with ten degrees of freedom.

    Result: None if a link has no parameters in the robot file, or the model has no rigid links.
    """
    robot, base = fit.robot, fit.body_parameters
    if base is None or not knows_masses(robot):
        return None
    B = base.matrix
    distance = base.value - B @ robot.inertia_prior.ravel()
    C = base.covariance + B @ prior_covariance(robot) @ B.T
    scale = np.sqrt(np.diag(C))
    scale = np.where(scale > 0, scale, 1.0)
    C, d = C / np.outer(scale, scale), distance / scale
    # Some variance in every direction, so that exact agreement with the robot file is not expected.
    C += 1e-6 * np.eye(len(C))
    loads = [_load(robot, C, d, B / scale[:, None], body) for body in outermost(robot)]
    return min(loads, key=lambda load: load.p_value, default=None)


def _load(robot: RobotModel, C: Float, d: Float, B: Float, body: int) -> Load:
    # The load on one link; its prior scale is the mass of the whole robot at 0.5 m.
    J = B[:, 10 * body : 10 * body + 10]
    total_mass = max(float(robot.inertia_prior[:, 0].sum()), 1e-6)
    size = total_mass * np.array([1.0, *(0.5,) * 3, *(0.25,) * 6])
    J = J * size
    weighted = np.linalg.solve(C, np.column_stack([J, d]))
    A = J.T @ weighted[:, :10] + np.eye(10)
    score = J.T @ weighted[:, 10]
    inverse = np.linalg.inv(A)
    load = inverse @ score
    gain = float(score @ load)
    return Load(
        robot.body_names[body],
        float(size[0] * load[0]),
        float(size[0] * np.sqrt(inverse[0, 0])),
        float(chi_squared_tail(10, max(gain, 0.0))),
        gain / max(float(d @ weighted[:, 10]), 1e-300),
    )


def knows_masses(robot: RobotModel) -> bool:
    """Whether the robot file has the inertial parameters of every link, with positive masses."""
    return bool(np.isfinite(robot.inertia_prior).all() and (robot.inertia_prior[:, 0] > 0).all())


def prior_covariance(robot: RobotModel) -> Float:
    """Covariance (10 nb, 10 nb) of the inertial parameters in the robot file, independent between links."""
    covariance = np.zeros((10 * robot.n_bodies, 10 * robot.n_bodies))
    for i, body in enumerate(robot.inertia_prior):
        covariance[10 * i : 10 * i + 10, 10 * i : 10 * i + 10] = _link_covariance(body)
    return covariance


def _link_covariance(body: Float) -> Float:
    # Covariance (10, 10) of a link in the robot file from errors of its mass, centre of mass and inertia.
    mass, com, inertia = to_com(body)
    parts = [UNSURE * body]
    for axis in range(3):
        moved = com.copy()
        moved[axis] += 1e-4
        slope = (from_com(mass, moved, inertia) - body) / 1e-4
        parts.append(slope * np.hypot(UNSURE * com[axis], UNSURE_CENTRE))
    inertia_std = UNSURE * float(np.trace(inertia)) / 3
    extra = np.diag([0.0] * 4 + [inertia_std**2] * 6)
    return np.asarray(sum((np.outer(part, part) for part in parts), start=extra))


def outermost(robot: RobotModel) -> list[int]:
    """Indices of links that carry no other link."""
    parents = set(robot.parent.tolist())
    return [i for i in range(robot.n_bodies) if i not in parents]


# A load of unknown inertia that is carried while a channel of the log says so.


@dataclass(frozen=True)
class HeldLoad(Term):
    """Torque of an unknown load on a link while it is carried: tau = s(t) Y_link(q, dq, ddq) pi, ten parameters.

    Attributes
    ----------
    channel_name : str
        Extra log channel u that shows the load, s = (u - empty) / (held - empty).
    body : str
        Name of the link; "" = the last one.
    held, empty : float
        Values of the channel with and without the load.

    """

    channel_name: str
    body: str = ""
    held: float = 1.0
    empty: float = 0.0
    name: str = "held_load"
    traits = Traits(Kind.LOG)
    words = TermWords(
        symbols=tuple(
            Symbol(f"held_{symbol}", f"held {symbol}", "", f"{symbol} of the load that is carried at times")
            for symbol in INERTIAL_SYMBOLS
        )
    )

    def __post_init__(self) -> None:
        if not np.isfinite([self.held, self.empty]).all() or self.held == self.empty:
            raise UsageError(
                "held-load",
                found=f"held = {self.held:g}, empty = {self.empty:g}",
                expected="two different values of the channel, with and without the load",
            )

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Ten parameters about the joint frame of the link."""
        body = _carrier(robot, self.body)
        return tuple(
            Column(
                f"held_{symbol}{body + 1}",
                unit,
                self.name,
                body,
                lower=0.0 if symbol == "m" else -np.inf,
                of=Of.ROBOT,
            )
            for symbol, unit in zip(INERTIAL_SYMBOLS, INERTIAL_UNITS, strict=True)
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Columns of the link while the load is carried."""
        first = 10 * _carrier(robot, self.body)
        body_columns = np.zeros(10 * robot.n_bodies, dtype=np.bool_)
        body_columns[first : first + 10] = wanted
        share = (channel(samples, self.channel_name) - self.empty) / (self.held - self.empty)
        panels = RigidBody().torque_regressor(robot, samples, body_columns)
        return Panels(
            tuple(columns - first for columns in panels.columns),
            tuple(values * share for values in panels.values),
        )
