"""A load of known inertia that was mounted during some trajectories."""

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
from dynid.terms.residual_tests import MISSES_MUCH, Declared, FitAnalysis, Hypothesis, TermWords
from dynid.terms.rigid_body import INERTIAL_SYMBOLS, INERTIAL_UNITS, RigidBody
from dynid.terms.term import Term

# What is known of a described body: mass and inertia to 30 %, its centre to 30 % and 2 cm.
UNSURE, UNSURE_CENTRE = 0.3, 0.02
# Chance of a false alarm; standard deviations of the mass that are chance.
LOAD_CHANCE, LOAD_SIGNIFICANCE = 1e-6, 2.0
# Of the distance from the description, what a load has to explain.
LOAD_EXPLAINED = 0.5


def _load_notices(fit: FitAnalysis) -> Iterator[Hypothesis]:
    """Where a load explains the better part of the way to the bodies of a fit that can be trusted."""
    if float(np.median(fit.missed)) > MISSES_MUCH:
        return
    load = find_load(fit)
    if load is not None and load.sure and load.explained >= LOAD_EXPLAINED:
        yield Hypothesis(
            Finding(
                Level.DOUBT,
                "payload",
                f"body '{load.body}' looks about {load.mass:.2g} +- {2 * load.std:.1g} kg heavier than its "
                "description (a tool or a load)",
                advice="leave it where the model is to hold it; else take it off, or declare it (a [[fixed]] part, a "
                "link of the description, or known_payload)",
            ),
            "the bodies of the description",
            declared=Declared(load=fit.robot.body_names.index(load.body)),
            lesser=Level.WARNING,
        )


@dataclass(frozen=True)
class KnownPayload(Term):
    """Torque of a known load on a body, during the trajectories that match a pattern; it adds no unknown.

    inertia: ten parameters about the joint frame of the body.    body: name; "" = the last one.
    trajectories: shell pattern of trajectory names, "*" = all.
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
                found=f"{list(self.inertia)}",
                expected="ten finite numbers: m, mcx, ..., Izz",
            )

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """None: everything is known."""
        return ()

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Empty."""
        return empty_panels(robot, samples)

    def _inertia(self, robot: RobotModel, samples: Samples) -> Float | None:
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
    """Momentum of the load alone, and the rest of its torque."""
    inertia = term._inertia(robot, samples)
    if inertia is None:
        return None
    columns = np.asarray(inertia.ravel() != 0)
    P, R = momentum_form(RigidBody(), robot, samples, columns)
    return _applied(P, inertia.ravel()), _applied(R, inertia.ravel())


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
    # Index of the body that carries a load; the last one for "".
    if body and body not in robot.body_names:
        raise UsageError(
            "unknown-body", found=f"body '{body}'", expected="one of " + ", ".join(robot.body_names)
        )
    return robot.body_names.index(body) if body else robot.n_bodies - 1


def _applied(panels: Panels, values: Float) -> Float:
    return np.stack(
        [values[c] @ lines for c, lines in zip(panels.columns, panels.values, strict=True)], axis=1
    )


@dataclass(frozen=True)
class Load:
    """A load on a body that the description lacks.    mass, std: kg.    p_value: of no load at all.

    explained: share of the distance between description and estimate that it explains, 0 to 1.
    """

    body: str
    mass: float
    std: float
    p_value: float
    explained: float

    @property
    def sure(self) -> bool:
        """Whether it is beyond chance, and heavier than none."""
        return self.p_value < LOAD_CHANCE and self.mass > LOAD_SIGNIFICANCE * self.std


def find_load(fit: FitAnalysis) -> Load | None:
    """The load on one of the outermost bodies that brings description and estimate closest together.

    With d = beta - B pi0 the distance in base parameters, C = cov(beta) + B S B' what is to be expected of it (S: how
    well a description is known), a load pi on a body with columns J of B is the least-squares solution of J pi = d in
    the metric of C; its gain is tested against chi-square with ten degrees of freedom.
    None without a description of every body or without rigid bodies.
    """
    robot, base = fit.robot, fit.body_parameters
    if base is None or not np.isfinite(robot.inertia_prior).all() or (robot.inertia_prior[:, 0] <= 0).any():
        return None
    B = base.matrix
    distance = base.value - B @ robot.inertia_prior.ravel()
    C = base.covariance + B @ unsure_description(robot) @ B.T
    scale = np.sqrt(np.diag(C))
    scale = np.where(scale > 0, scale, 1.0)
    C, d = C / np.outer(scale, scale), distance / scale
    # A little of its own for every direction, so that no exact agreement is asked of a description.
    C += 1e-6 * np.eye(len(C))
    found = [_load(robot, C, d, B / scale[:, None], body) for body in outermost(robot)]
    return min(found, key=lambda one: one.p_value, default=None)


def _load(robot: RobotModel, C: Float, d: Float, B: Float, body: int) -> Load:
    J = B[:, 10 * body : 10 * body + 10]
    heavy = max(float(robot.inertia_prior[:, 0].sum()), 1e-6)
    size = heavy * np.array([1.0, *(0.5,) * 3, *(0.25,) * 6])
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


def unsure_description(robot: RobotModel) -> Float:
    """Covariance (10 nb, 10 nb) of the described bodies' parameters, each body's errors being its own."""
    found = np.zeros((10 * robot.n_bodies, 10 * robot.n_bodies))
    for i, body in enumerate(robot.inertia_prior):
        found[10 * i : 10 * i + 10, 10 * i : 10 * i + 10] = _unsure(body)
    return found


def _unsure(body: Float) -> Float:
    # Covariance (10, 10) of a described body: its scale, its centre, its inertia.
    mass, com, inertia = to_com(body)
    parts = [UNSURE * body]
    for axis in range(3):
        moved = com.copy()
        moved[axis] += 1e-4
        slope = (from_com(mass, moved, inertia) - body) / 1e-4
        parts.append(slope * np.hypot(UNSURE * com[axis], UNSURE_CENTRE))
    own = UNSURE * float(np.trace(inertia)) / 3
    extra = np.diag([0.0] * 4 + [own**2] * 6)
    return np.asarray(sum((np.outer(part, part) for part in parts), start=extra))


def outermost(robot: RobotModel) -> list[int]:
    """Bodies that carry no other."""
    parents = set(robot.parent.tolist())
    return [i for i in range(robot.n_bodies) if i not in parents]


# A load of unknown inertia that is held while a channel of the log says so.


@dataclass(frozen=True)
class HeldLoad(Term):
    """Torque of a load on a body while it is held: tau = s(t) Y_body(q, dq, ddq) pi, ten parameters.

    channel_name: the extra channel u that says so, s = (u - empty) / (held - empty).    body: name; "" = the last one.
    held, empty: values of the channel with the load and without it.
    """

    channel_name: str
    body: str = ""
    held: float = 1.0
    empty: float = 0.0
    name: str = "held_load"
    traits = Traits(Kind.LOG)
    words = TermWords(
        symbols=tuple(
            Symbol(f"held_{symbol}", f"held {symbol}", "", f"{symbol} of the load that is held at times")
            for symbol in INERTIAL_SYMBOLS
        )
    )

    def __post_init__(self) -> None:
        if not np.isfinite([self.held, self.empty]).all() or self.held == self.empty:
            raise UsageError(
                "held-load",
                found=f"held = {self.held:g}, empty = {self.empty:g}",
                expected="two different values of the channel: with the load and without it",
            )

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Ten parameters about the joint frame of the body."""
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
        """Columns of the body while the load is held."""
        first = 10 * _carrier(robot, self.body)
        own = np.zeros(10 * robot.n_bodies, dtype=np.bool_)
        own[first : first + 10] = wanted
        share = (channel(samples, self.channel_name) - self.empty) / (self.held - self.empty)
        panels = RigidBody().torque_regressor(robot, samples, own)
        return Panels(
            tuple(columns - first for columns in panels.columns),
            tuple(values * share for values in panels.values),
        )
