"""The protocol "words": signs of a missing effect in residuals, and the meaning of the size of an estimated one."""

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

# Share of a joint's usual top speed at which the smoothed sign saturates, and quantile of speeds that is the top speed.
STEEP, USUAL = 0.02, 0.95
# Chance of a false alarm of one diagnosis on one log, over all joints and forms that it tests.
ALARM = 1e-3
# Share of a residual's mean square below which an effect is not reported.
LEAST_SHARE = 0.1
# Number of equal parts of the range of time (or temperature), and least number of parts in which a joint has to move to
# show a change: a straight line through two short motions fits anything.
PARTS, LEAST_PARTS = 12, 6
# Share of a joint's maximum speed above which it is in motion.
MOVES = 0.1
# Range of the sizes on single joints, relative to the size on all joints together, within which the effect is common.
LEAST_PART, MOST_PART = 0.3, 4.0
# Median relative torque error above which identified links are not used as evidence, since they compensate for
# missing effects.
LARGE_ERROR = 0.3


@dataclass(frozen=True)
class FeatureGroup:
    """Competing features: for each joint, the feature that explains most of its residual is reported.

    Attributes
    ----------
    identifier : str
        Code of the findings.
    looks_at : str
        What is tested, for the report.
    friction : bool
        Whether they are forms of friction; a joint may already have one in the model.
    imitated_by : FeatureGroup or None
        Group with similar features; most of the effect must remain after these are removed.
    alike : bool
        Whether the same size on all joints is an effect of the whole robot, which is reported separately.
    explanation : Explanation or None
        Meaning of its finding, for plug-ins; that of built-in groups is in docs/findings.

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
    """Texts about what a feature explains.

    Attributes
    ----------
    title : str
        The problem of the joint.
    text : str
        The evidence; {figures} is replaced by the explained share.
    advice : str
        What to do.
    curve : str
        Name of the explained part in the figure.
    beside_form : str
        Possible causes if the joint's friction is not plain friction, after "FORM leaves this: "; "" = `advice`.

    """

    title: str
    text: str
    advice: str
    curve: str
    beside_form: str = ""


@dataclass(frozen=True, eq=False)
class Feature:
    """The residual that a missing effect leaves, up to k factors, and the texts about it.

    Attributes
    ----------
    columns : ndarray, shape (N, k) or (n, N, k)
        Torque per unit of each factor, of the joint or of all joints.
    words : callable
        Texts from the factors (k,) and their standard deviations (k,).
    x : ndarray, shape (N,)
        Horizontal axis of the figure of the residual.
    x_title : str
        Title of this axis.
    along : ndarray, shape (N,), or None
        Sign with which the residual is drawn.
    clear : Feature or None
        The same feature on samples where no other effect looks similar. If it explains something there too, its texts
        are used.

    """

    columns: Float
    words: Callable[[Float, Float], Words]
    x: Float
    x_title: str
    along: Float | None = None
    clear: Feature | None = None


@dataclass(frozen=True, eq=False)
class FeatureTest:
    """Result of a test of k features on the residuals.

    Attributes
    ----------
    coefficient, std : ndarray, shape (k,)
        Least-squares factors, and their standard deviations from the scores of blocks.
    share : ndarray, shape (n,)
        Explained share of each joint's mean square residual.
    p_value : float
        Hotelling's test of the scores of blocks against zero.
    free : ndarray, shape (k,)
        Share of each feature that the model cannot explain.
    fitted : ndarray, shape (joints, N)
        Torque that the features explain, without the part that the model can explain.

    """

    coefficient: Float
    std: Float
    share: Float
    p_value: float
    free: Float
    fitted: Float


@dataclass(frozen=True, eq=False)
class AlikeTest:
    """Result of a test of a feature with one factor on all joints.

    Attributes
    ----------
    factor, std : float
        Common factor of all joints, and its standard deviation.
    by_joint : ndarray, shape (k,)
        Factor of every joint by itself.
    share : ndarray, shape (k,)
        Share of each joint's mean square residual that the common factor explains.
    p_value : float
        Test of a factor of zero.

    """

    factor: float
    std: float
    by_joint: Float
    share: Float
    p_value: float

    @property
    def believable(self) -> bool:
        """Whether it is significant, explains enough, and has about the same size on every joint."""
        if not (self.p_value < ALARM and np.median(self.share) > LEAST_SHARE and len(self.by_joint)):
            return False
        parts = self.by_joint / self.factor
        return bool((parts > LEAST_PART).all() and (parts < MOST_PART).all())


@dataclass(frozen=True, eq=False)
class Remains:
    """The samples at which residuals are tested, from which features are computed.

    Attributes
    ----------
    robot : RobotModel
        The robot.
    motion : Samples
        Motion of N samples; `t` is in seconds since the start, trajectories one after the other.
    slope : ndarray, shape (N, n), N m/s (N/s)
        Derivative of the predicted torque along time.
    reverses : ndarray of bool, shape (N, n)
        Whether a joint is near a reversal, where friction can look like other effects.
    steps : bool
        Whether the friction of the model has a step at zero velocity.
    bodies : ndarray, shape (nb, 10), or None
        Inertial parameters of the model; None = unknown.

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
        """Usual top speed of a joint, rad/s (m/s)."""
        return max(float(np.quantile(np.abs(self.motion.dq[:, joint]), USUAL)), 1e-12)

    def step(self, joint: int) -> Float:
        """Smoothed sign (N,) of a joint's velocity."""
        return np.asarray(np.tanh(self.motion.dq[:, joint] / (STEEP * self.top_speed(joint))))

    def friction(self, joint: int, column: Float, title: Callable[[float], str], advice: str) -> Feature:
        """Feature of a form of friction.

        `joint`: index of the joint; `column` (N,): torque per unit of the factor; `title`: name of the form from its
        factor, which begins the text; `advice`: what to do, without the full stop.
        """

        def words(factor: Float, _: Float) -> Words:
            size = abs(float(factor[0])) * np.abs(column).max()
            return Words(
                "friction missing from the model",
                f"{title(float(factor[0]))}: {{figures}}; size {size:.3g} {self.unit(joint)}.",
                f'{advice}, or let {{ term = "friction" }} choose by held-out error.',
                "this form",
            )

        return Feature(column[:, None], words, self.motion.dq[:, joint], f"velocity, {self.angle(joint)}/s")


def moves_throughout(values: Float, dq: Float) -> bool:
    """Whether a joint moves in enough parts of the range of time or temperature to show a change with it.

    Parameters
    ----------
    values : ndarray, shape (N,)
        Time or temperature.
    dq : ndarray, shape (N,)
        Velocity of the joint.

    Returns
    -------
    bool

    """
    span = float(np.ptp(values))
    if not span > 0:
        return False
    part = np.minimum((PARTS * (values - values.min()) / span).astype(int), PARTS - 1)
    moves = np.abs(dq) > MOVES * np.abs(dq).max(initial=0.0)
    return len(np.unique(part[moves])) >= LEAST_PARTS


@dataclass(frozen=True, eq=False)
class BodyParameters:
    """Base parameters that consist of inertial parameters only.

    Attributes
    ----------
    matrix : ndarray, shape (b, 10 nb)
        Combinations of the inertial parameters.
    value : ndarray, shape (b,)
        Estimates.
    covariance : ndarray, shape (b, b)
        Covariance of the estimates.

    """

    matrix: Float
    value: Float
    covariance: Float


class FitAnalysis(Protocol):
    """A fit and its residuals, as `lacking` and `against_description` receive it."""

    @property
    def robot(self) -> RobotModel:
        """The robot with the parameters of its file."""
        ...

    @property
    def remains(self) -> Remains:
        """The N samples at which features are computed."""
        ...

    @property
    def joints(self) -> tuple[int, ...]:
        """Indices of joints that moved and have a residual."""
        ...

    @property
    def source_rate(self) -> float:
        """Sampling rate of the log, Hz."""
        ...

    @property
    def rate(self) -> float:
        """Sampling rate of the residuals, Hz."""
        ...

    @property
    def accelerations(self) -> bool:
        """Whether accelerations are reliable."""
        ...

    @property
    def enough(self) -> bool:
        """Whether there are enough samples for tests."""
        ...

    @property
    def missed(self) -> Float:
        """R.m.s. residual over r.m.s. torque, (n,)."""
        ...

    @property
    def torque_rms(self) -> Float:
        """R.m.s. measured torque, (n,)."""
        ...

    @property
    def terms(self) -> Iterable[Any]:
        """Terms of the model."""
        ...

    @property
    def balanced(self) -> Bool:
        """Mask (n,) of joints whose gravity torque may be carried by a term other than the rigid links."""
        ...

    @property
    def body_parameters(self) -> BodyParameters | None:
        """Base parameters of the rigid links alone; None for a model without links."""
        ...

    def test_features(self, features: Float) -> FeatureTest | None:
        """Test features (n, N, k) on the residuals of all joints; None if the model already contains them."""
        ...

    def test_alike(self, columns: Float) -> AlikeTest | None:
        """Test a feature (n, N) with one factor on all joints, and per joint; None as in `test_features`."""
        ...

    def shows_later(self, seconds: float, joints: Sequence[int]) -> bool:
        """Whether delaying the torque of some joints by `seconds` reduces the plain model's error between reversals."""
        ...

    def misfit_by_shift(self, shifts: Float) -> Float | None:
        """Squared error of the plain model per joint over all squared torque, (k, n), for torque shifted by (k,) s."""
        ...


class Rival(StrEnum):
    """Effects that can look like another one, in words."""

    POSITION = "a cosine of each joint's own position (a cable, a spring, a counterbalance)"
    FRICTION = "friction of another form"
    ZERO = "a joint's zero that is off"
    CROSSTALK = "a share of the neighbouring joints' torque (cross-talk of the sensors)"


@dataclass(frozen=True, eq=False)
class Declared:
    """Corrections of a log for an effect, with which held-out blocks are predicted as proof of it.

    Attributes
    ----------
    gravity : ndarray, shape (3,), m/s^2, or None
        Gravity; None = that of the robot file.
    factors : mapping of int to float
        By joint: factor by which efforts are too large.
    seconds : float, s
        Delay of all efforts.
    zeros : mapping of int to float, rad (m)
        By joint: position minus logged position.
    load : int or None
        Link with a load of unknown inertia; None = no load.

    """

    gravity: Float | None = None
    factors: Mapping[int, float] = field(default_factory=dict)
    seconds: float = 0.0
    zeros: Mapping[int, float] = field(default_factory=dict)
    load: int | None = None

    def mirror(self, robot: RobotModel) -> Declared:
        """The opposite correction: tilt in the other direction, inverse factors, advance in place of delay."""
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
    """A finding to prove: it keeps its level only if a correction of the log for it reduces the held-out error.

    Attributes
    ----------
    finding : Finding
        Its text says what was found, its advice what to do.
    expected : str
        What was expected, printed only with a doubt.
    declared : Declared or None
        Correction that has to reduce the held-out error to justify the level; None = no proof is necessary.
    lesser : Level
        Level without proof.
    rivals : tuple of Rival
        Effects that must not reduce the held-out error as much.
    held : str
        Text after the evidence.
    sign : Hypothesis or None
        Hypothesis in its place if the other sign of the efforts reduces the error further.
    instead_of : tuple of str
        Codes of findings that are left out because this one explains them.

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
class FittedEffect:
    """A fitted model, as `notices` receive it.

    Attributes
    ----------
    robot : RobotModel
        The robot.
    sizes : mapping of str to tuple of float
        Value and half width of its 95 % interval, by name, of the identifiable parameters.
    rate : float, Hz
        Sampling rate of the log.
    seconds : float, s
        Duration of the log.
    torque : ndarray, shape (n,)
        R.m.s. torque of each joint.
    shows_later : callable
        `FitAnalysis.shows_later`.

    """

    robot: RobotModel
    sizes: Mapping[str, tuple[float, float]]
    rate: float
    seconds: float
    torque: Float
    shows_later: Callable[[float, Sequence[int]], bool] = lambda seconds, joints: True


def nothing(*_: Any) -> tuple[Any, ...]:
    """Return no items: the default of the functions of words and selections."""
    return ()


@dataclass(frozen=True, eq=False)
class TermWords:
    """Notation of a term, signs of its absence, and meaning of its size.

    Attributes
    ----------
    symbols : tuple of Symbol
        Notation of its parameters.
    group : FeatureGroup or None
        Group of its features; None = it has none.
    features : callable
        Features of the residual of one joint if the term is missing, from `Remains` and the joint.
    lacking : callable
        Notices from the residuals of the whole robot if the term is missing, from a `FitAnalysis`.
    against_description : callable
        Notices from the difference between a fit and the robot file, from a `FitAnalysis`.
    notices : callable
        Notices about its size in a fitted model, from the term and a `FittedEffect`.
    explanations : tuple of Explanation
        Explanations of a plug-in's codes; those of built-in codes are in docs/findings.

    """

    symbols: tuple[Symbol, ...] = ()
    group: FeatureGroup | None = None
    features: Callable[[Remains, int], tuple[Feature, ...]] = nothing
    lacking: Callable[[FitAnalysis], Iterable[Finding | Hypothesis]] = nothing
    against_description: Callable[[FitAnalysis], Iterable[Finding | Hypothesis]] = nothing
    notices: Callable[[Any, FittedEffect], Iterable[Finding | Hypothesis]] = nothing
    explanations: tuple[Explanation, ...] = ()
