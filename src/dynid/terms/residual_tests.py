"""What an effect leaves where a model lacks it, and what its size means where a model holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Protocol
from warnings import warn

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Explanation, Finding, Level
from dynid.base.errors import Place
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.spatial.algebra import rotation_about
from dynid.terms.exports import Symbol

# Where the steep part of dry friction ends, as a share of a joint's usual top speed, and the share of speeds below it.
STEEP, USUAL = 0.02, 0.95
# Chance of a false alarm of one diagnosis on one log, all joints and forms that it tries counted.
ALARM = 1e-3
# Less than this share of a residual's mean square is not worth a word.
LEAST_SHARE = 0.1
# Equal parts of the range of time (or of temperature), and those in which a joint has to move so that what it does can
# be said to change: a straight line through two short motions fits anything.
PARTS, LEAST_PARTS = 12, 6
# Of a joint's greatest speed, from which on it moves.
MOVES = 0.1
# An effect of all joints is one where each joint by itself says about the same of its size: so many times of what all
# together say.
LEAST_PART, MOST_PART = 0.3, 4.0
# Of its torque, what a median joint misses from which on identified bodies stand for what the model lacks.
MISSES_MUCH = 0.3


@dataclass(frozen=True)
class FeatureGroup:
    """Features that rival one another: of each joint, the one that explains most of its residual is reported.

    identifier: of the findings.    looks_at: what is tested, for the report.
    friction: whether they are forms of friction, of which a joint may have one already.
    imitated_by: features of another group that look alike; those of this one have to explain most of it beside them.
    alike: whether features that come out alike on all joints are an effect of the whole robot, which says so itself.
    explanation: what its finding means, from a plug-in; that of dynid's own groups is in docs/findings.
    """

    identifier: str
    looks_at: str
    friction: bool = False
    imitated_by: FeatureGroup | None = None
    alike: bool = False
    explanation: Explanation | None = None


FRICTION_FORM = FeatureGroup(
    "friction-form",
    "residual against velocity",
    True,
)


@dataclass(frozen=True)
class Words:
    """How to say what a feature explains.

    title: what is wrong with the joint.    text: on what evidence; {figures} stands for how much is explained.
    advice: what to do.    curve: name of the explained part in the drawing.
    beside_form: what to do where the joint's friction has a form of its own already, "" = the same.
    """

    title: str
    text: str
    advice: str
    curve: str
    beside_form: str = ""


@dataclass(frozen=True, eq=False)
class Feature:
    """What the lack of an effect leaves of a joint's residual, and how to say so.

    columns: (N, k) torque of the joint, or (n, N, k) of all joints, up to k factors.
    words: from the factors (k,) and their standard deviations (k,).
    x, x_title: what to draw the residual against, (N,).    along: (N,) sign to draw it with.
    clear: the feature where nothing else looks alike; its words are said where it explains something there, too.
    """

    columns: Float
    words: Callable[[Float, Float], Words]
    x: Float
    x_title: str
    along: Float | None = None
    clear: Feature | None = None


@dataclass(frozen=True, eq=False)
class FeatureTest:
    """What a set of k features makes of the residuals.

    coefficient: (k,) by least squares.    std: (k,) from the blocks' scores.
    share: (n,) part of each joint's mean square residual that is explained.
    p_value: of Hotelling's test of the blocks' scores against zero.
    free: (k,) part of each feature that the model leaves.
    fitted: (joints, N) torque that the features explain, less what the model takes up of them.
    """

    coefficient: Float
    std: Float
    share: Float
    p_value: float
    free: Float
    fitted: Float


@dataclass(frozen=True, eq=False)
class AlikeTest:
    """One factor on all joints.    factor, std: of all together.    by_joint: (k,) of every joint by itself.

    share: (k,) of each joint's mean square residual that it explains.    p_value: of no such effect.
    """

    factor: float
    std: float
    by_joint: Float
    share: Float
    p_value: float

    @property
    def believable(self) -> bool:
        """Whether it is beyond chance, matters, and every joint by itself says about the same."""
        if not (self.p_value < ALARM and np.median(self.share) > LEAST_SHARE and len(self.by_joint)):
            return False
        parts = self.by_joint / self.factor
        return bool((parts > LEAST_PART).all() and (parts < MOST_PART).all())


@dataclass(frozen=True, eq=False)
class Remains:
    """Where features come from: the samples at which residuals are tested.

    motion: `t` counts seconds since the start, trajectories one behind the other.
    steps: whether the model's friction has a step at rest.    bodies: (nb, 10) of the model, None = not known.
    slope: (N, n) the predicted torque's change in time, N m/s.
    reverses: (N, n) whether a joint is near a reversal, where friction may look like anything.
    """

    robot: RobotModel
    motion: Samples
    slope: Float
    reverses: Bool
    steps: bool = False
    bodies: Float | None = None

    def unit(self, joint: int) -> str:
        """Unit of a joint's effort."""
        return "N" if self.robot.prismatic[joint] else "N m"

    def angle(self, joint: int) -> str:
        """Unit of a joint's position."""
        return "m" if self.robot.prismatic[joint] else "rad"

    def top_speed(self, joint: int) -> float:
        """A joint's usual top speed."""
        return max(float(np.quantile(np.abs(self.motion.dq[:, joint]), USUAL)), 1e-12)

    def step(self, joint: int) -> Float:
        """(N,) a smoothed sign of a joint's velocity."""
        return np.asarray(np.tanh(self.motion.dq[:, joint] / (STEEP * self.top_speed(joint))))

    def friction(self, joint: int, column: Float, seen: Callable[[float], str], advice: str) -> Feature:
        """The feature of a form of friction.    seen: from its factor."""

        def words(factor: Float, _: Float) -> Words:
            size = abs(float(factor[0])) * np.abs(column).max()
            return Words(
                "friction that the model lacks",
                f"{seen(float(factor[0]))}: {{figures}}; size {size:.3g} {self.unit(joint)}.",
                f'{advice}, or let {{ term = "friction" }} choose by held-out blocks.',
                "this form",
            )

        return Feature(column[:, None], words, self.motion.dq[:, joint], f"velocity, {self.angle(joint)}/s")


def moves_throughout(values: Float, dq: Float) -> bool:
    """Whether a joint moves in so many parts of the range of time or temperature that a change with it can be seen.

    values: (N,) time or temperature.    dq: (N,) of the joint.
    """
    span = float(np.ptp(values))
    if not span > 0:
        return False
    part = np.minimum((PARTS * (values - values.min()) / span).astype(int), PARTS - 1)
    moves = np.abs(dq) > MOVES * np.abs(dq).max(initial=0.0)
    return len(np.unique(part[moves])) >= LEAST_PARTS


@dataclass(frozen=True, eq=False)
class BodyParameters:
    """Base parameters that bodies alone make up: matrix (b, 10 nb) of them, value (b,) and covariance (b, b)."""

    matrix: Float
    value: Float
    covariance: Float


class FitAnalysis(Protocol):
    """A fit and what it left over, as a term looks at it for itself."""

    @property
    def robot(self) -> RobotModel:
        """As described."""
        ...

    @property
    def remains(self) -> Remains:
        """The N samples that features are given at."""
        ...

    @property
    def joints(self) -> tuple[int, ...]:
        """Those that moved and left a residual."""
        ...

    @property
    def source_rate(self) -> float:
        """Of the log, Hz."""
        ...

    @property
    def rate(self) -> float:
        """Of the residuals, Hz."""
        ...

    @property
    def accelerations(self) -> bool:
        """Whether accelerations can be trusted."""
        ...

    @property
    def enough(self) -> bool:
        """Whether there are samples enough for any test."""
        ...

    @property
    def missed(self) -> Float:
        """(n,) r.m.s. residual over r.m.s. torque."""
        ...

    @property
    def balanced(self) -> Bool:
        """(n,) joints whose gravity a term of the model may carry."""
        ...

    @property
    def body_parameters(self) -> BodyParameters | None:
        """What the fit says of bodies alone; None for a model without them."""
        ...

    def test_features(self, features: Float) -> FeatureTest | None:
        """Tests features (n, N, k) on the residuals of all joints; None where the model holds them already."""
        ...

    def test_alike(self, columns: Float) -> AlikeTest | None:
        """Tests a feature (n, N) with one factor on all joints, and by joint; None as for `test_features`."""
        ...

    def shows_later(self, seconds: float, joints: Sequence[int]) -> bool:
        """Whether the plain model misses less between reversals where the torque of some joints is read later."""
        ...

    def misfit_by_shift(self, shifts: Float) -> Float | None:
        """Shares (k, n) of all squared torque that the plain model misses on each joint, torque (k,) seconds later."""
        ...


class Rival(StrEnum):
    """What imitates an effect, in words."""

    POSITION = "a cosine of each joint's own position (a cable, a spring, a counterbalance)"
    FRICTION = "friction of another form"
    ZERO = "a joint's zero that is off"
    CROSSTALK = "a share of the neighbouring joints' torque (cross-talk of the sensors)"


@dataclass(frozen=True, eq=False)
class Declared:
    """How a log is to be read if an effect is there.

    gravity: (3,) m/s^2, None = as described.    factors: that efforts are too large by, by joint.
    seconds: that efforts are late by.    zeros: rad or m that joints stand further than logged, by joint.
    load: index of the body that carries one, of any ten parameters, beside the described bodies; None = no load.
    """

    gravity: Float | None = None
    factors: Mapping[int, float] = field(default_factory=dict)
    seconds: float = 0.0
    zeros: Mapping[int, float] = field(default_factory=dict)
    load: int | None = None

    def mirror(self, robot: RobotModel) -> Declared:
        """The opposite: a lean the other way, efforts as much too small, or as much too early."""
        gravity = None
        if self.gravity is not None:
            level = robot.gravity
            axis = np.cross(self.gravity, level)
            sine, cosine = np.linalg.norm(axis), float(self.gravity @ level)
            angle = float(np.arctan2(sine, cosine))
            gravity = rotation_about(axis / sine, angle) @ level if sine > 0 else level
        factors = {j: 1.0 / factor for j, factor in self.factors.items()}
        return Declared(gravity, factors, -self.seconds, {j: -zero for j, zero in self.zeros.items()})


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A finding to prove: it keeps its level only if declaring its cause predicts held-out blocks better.

    Parameters
    ----------
    finding : Finding
        Its text says what was found, its advice what to do.
    expected : str
        What was expected, printed only with a doubt.
    declared : Declared, optional
        How the log is read if the cause is present; None = no proof is needed.
    lesser : Level
        Level without proof.
    rivals : tuple of Rival
        Other causes, which must not predict as well.
    held : str
        Text after the evidence.
    sign : Hypothesis, optional
        Reported instead if reversing the sign of the efforts predicts even better.
    instead_of : tuple of str
        Codes that are not reported together with this one, because it explains the same.

    """

    finding: Finding
    expected: str = ""
    declared: Declared | None = None
    lesser: Level = Level.NOTE
    rivals: tuple[Rival, ...] = ()
    held: str = ""
    sign: Hypothesis | None = None
    instead_of: tuple[str, ...] = ()


def Notice(
    identifier: str, level: Level, found: str, expected: str = "", do: str = "", joint: str = "", **proof: Any
) -> Hypothesis:
    """Make a Hypothesis with the arguments of dynid before 0.2. Deprecated: write a Finding or a Hypothesis."""
    warn(
        "Notice is deprecated: write dynid.base.Finding, in a Hypothesis if it needs proof",
        DeprecationWarning,
        stacklevel=2,
    )
    return Hypothesis(
        Finding(level, identifier, found, Place(joint=joint or None), advice=do), expected, **proof
    )


@dataclass(frozen=True, eq=False)
class Held:
    """An effect in a fitted model.

    sizes: value and 95 % half width by name, of those parameters that the log determines.
    rate: of the log, Hz.    seconds: its length.    torque: (n,) r.m.s. by joint.
    shows_later: whether samples between reversals, too, are explained better where the torque of some joints is read
    so many seconds later.
    """

    robot: RobotModel
    sizes: Mapping[str, tuple[float, float]]
    rate: float
    seconds: float
    torque: Float
    shows_later: Callable[[float, Sequence[int]], bool] = lambda seconds, joints: True


def _nothing(*_: Any) -> tuple[Any, ...]:
    return ()


@dataclass(frozen=True, eq=False)
class TermWords:
    """How a term is written, what its lack looks like, and what its size means.

    symbols: of its parameters.
    group: of the features that it leaves in residuals, None = it leaves none.
    features: of the residual of one joint, in the group, where a model lacks it.
    lacking: what residuals say of it on the whole robot.
    against_description: what it would explain of the way in which a fit differs from the description.
    notices: what its sizes in a fitted model mean to whoever recorded the log.
    cause: its lack as a cause of bodies that are not physically consistent; with {joint}, that of single joints.
    cause_of_kind: the same of all joints of one kind of drive, which the description tells by the greatest effort.
    explanations: of a plug-in's codes; dynid's are in docs/findings.
    """

    symbols: tuple[Symbol, ...] = ()
    group: FeatureGroup | None = None
    features: Callable[[Remains, int], tuple[Feature, ...]] = _nothing
    lacking: Callable[[FitAnalysis], Iterable[Finding | Hypothesis]] = _nothing
    against_description: Callable[[FitAnalysis], Iterable[Finding | Hypothesis]] = _nothing
    notices: Callable[[Any, Held], Iterable[Finding | Hypothesis]] = _nothing
    cause: str = ""
    cause_of_kind: str = ""
    explanations: tuple[Explanation, ...] = ()
