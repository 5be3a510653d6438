"""Drive gains: the factor between reported torque and joint torque, per joint and common to all joints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import Place
from dynid.base.numerics import normal_quantile
from dynid.base.records import dataclass
from dynid.kernel import gravity_torque, inverse_dynamics
from dynid.log.prior_check import GEARED, size_advice
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Column, Kind, LogFacts, Question, Role, Scale, Side, Symbol, Traits
from dynid.terms.nominal import NominalTerm
from dynid.terms.payload import UNSURE, knows_masses, outermost, prior_covariance
from dynid.terms.residual_tests import (
    BodyParameters,
    Declared,
    FitAnalysis,
    FittedEffect,
    Hypothesis,
    Rival,
    TermWords,
)
from dynid.terms.term import JointTerm, Proposal, Selection, Term, joint_indices, proposal_by_joint

# A common factor of the gravity torque, and the uncertainty of the robot file as a reference for it.

# Logarithm of a factor beyond any that is known at all.
NO_SCALE = 50.0
# Chance of a false factor if masses and centres of the robot file are as uncertain as UNSURE.
SCALE_CHANCE = 0.05
# Difference of Akaike's criterion above which a load is clearly the better explanation (Burnham and Anderson 2002,
# section 2.6).
CLEAR = 4.0
# Factor that a scale of torque has to show: the most usual one, of peak for r.m.s., both sides of a gear or two units.
TWICE = 2.0
# Share of the largest singular value below which a value is rounding, and number of samples that gravity is computed
# at.
SHOWN, FEW = 1e-7, 200
# Cosine of the angle between a direction that gravity shows and the space of the fit above which the fit contains it.
KNOWN = 1.0 - 1e-6
# Share of each variance that is added, so that exact agreement with a robot file is not expected.
LEAST_VARIANCE = 1e-6
# Usual scatter of masses in robot files (15 %) relative to UNSURE, and the number of parameters that it counts as.
USUAL_SCATTER, SCATTER_WEIGHT = 0.15 / UNSURE, 4.0
# Change of log(factor) that ends the iteration, and largest number of iterations.
SETTLED, ROUNDS = 1e-6, 50
# Number of inertial parameters of a link that gravity torque depends on: mass and first moments, which come first.
OF_GRAVITY = 4


@dataclass(frozen=True)
class CommonScale:
    """Factor between the gravity torque of the robot file and that of the identified links.

    Attributes
    ----------
    factor : float
        Identified over file.
    std : float
        Standard deviation of its logarithm, from the scatter of the links about the factor, at least from UNSURE.
    by_load : float
        Difference of Akaike's criterion between the factor and a load on an outermost link; > 0: the load is better.

    """

    factor: float
    std: float
    by_load: float

    @property
    def limits(self) -> tuple[float, float]:
        """Interval that contains the factor with the probability 1 - SCALE_CHANCE."""
        return float(self.factor * np.exp(-self.reach)), float(self.factor * np.exp(self.reach))

    @property
    def reach(self) -> float:
        """Half width of the interval of the factor's logarithm."""
        return min(normal_quantile(1.0 - 0.5 * SCALE_CHANCE) * self.std, NO_SCALE)

    @property
    def open(self) -> bool:
        """Whether the interval tells neither 1 from 2 nor 1 from 1/2."""
        low, high = self.limits
        return low <= 1.0 <= high and not 1.0 / TWICE < low <= high < TWICE

    @property
    def sure(self) -> bool:
        """Whether the interval excludes a factor of 1, and no load is clearly the better explanation."""
        low, high = self.limits
        return not low <= 1.0 <= high and self.by_load <= CLEAR


def common_scale(fit: FitAnalysis) -> CommonScale | None:
    """Estimate the factor k between the masses and first moments of the robot file and the identified ones.

    Let G be the combinations of masses and first moments that gravity torque shows, beta = G pi those of the fit and
    b = G pi0 those of the robot file. beta - k b has the covariance C = cov(beta) + k^2 G S G', where S is the
    uncertainty of the robot file (see `find_load`). So k = b' C^-1 beta / b' C^-1 b and
    std(log k) = s / (k sqrt(b' C^-1 b)), where s^2 is the mean square of the remainder in the metric of C, at least 1.
    A wrong scale of torque is common to all links; errors of the robot file are independent between links. Gravity
    torque is used first, since it does not depend on rotors; where it does not tell a factor of two from none, all
    combinations of inertial parameters that the fit tells from the rotors, beta, are used, if the model has rotors.

    Result: None if a link has no parameters in the robot file, if the fit shows fewer than two combinations, or if the
    factor is not positive.

    References
    ----------
    Aitken 1936 (generalised least squares); Akaike 1974, Gelman et al. 2013, section 3.2 (by_load).

    """
    robot, base = fit.robot, fit.body_parameters
    if base is None or not knows_masses(robot):
        return None
    scale = _scale_of(robot, gravity_parameters(fit, base))
    if (scale is None or scale.reach > np.log(TWICE)) and any(
        term.traits.kind is Kind.ROTORS for term in fit.terms
    ):
        return _scale_of(robot, base) or scale
    return scale


def _scale_of(robot: RobotModel, shown: BodyParameters) -> CommonScale | None:
    described = shown.matrix @ robot.inertia_prior.ravel()
    unsure = shown.matrix @ prior_covariance(robot) @ shown.matrix.T
    if len(described) < 2 or not np.isfinite(shown.covariance).all():
        return None
    factor = 1.0
    for _ in range(ROUNDS):
        L, _ = _whitening(shown.covariance + factor**2 * unsure)
        b, beta = np.linalg.solve(L, np.column_stack([described, shown.value])).T
        estimate = float(b @ beta) / max(float(b @ b), 1e-300)
        if estimate <= 0:
            return None
        factor, before = estimate, factor
        if abs(np.log(factor / before)) < SETTLED:
            break
    remainder = float(((beta - factor * b) ** 2).sum())
    scatter = max(1.0, np.sqrt(remainder / (len(b) - 1)))
    loads = [shown.matrix[:, 10 * i : 10 * i + OF_GRAVITY] for i in outermost(robot)]
    criterion = _criterion(shown.covariance + factor**2 * unsure, described[:, None], shown.value)
    rivals = [_criterion(shown.covariance + unsure, columns, shown.value - described) for columns in loads]
    return CommonScale(factor, float(scatter / (factor * np.sqrt(b @ b))), criterion - min(rivals))


def gravity_parameters(fit: FitAnalysis, base: BodyParameters) -> BodyParameters:
    """Combinations of masses and first moments that gravity torque shows and the fit contains.

    Joints at rest, and joints whose gravity torque another term may carry, are left out.
    """
    robot, motion = fit.robot, fit.remains.motion
    some = slice(None, None, max(1, len(motion.q) // FEW))
    q = robot.tree_motion(motion.q, motion.dq, motion.ddq)[0][some]
    usable = np.isin(np.arange(robot.n), fit.joints) & ~fit.balanced
    columns = _gravity_columns(robot, q)[:, :, usable].reshape(10 * robot.n_bodies, -1)
    directions, size, _ = np.linalg.svd(columns, full_matrices=False)
    of_gravity = directions[:, size > SHOWN * size.max(initial=0.0)].T
    rows, _ = np.linalg.qr(base.matrix.T)
    rotation, cosine, _ = np.linalg.svd(of_gravity @ rows, full_matrices=False)
    matrix = rotation[:, cosine > KNOWN].T @ of_gravity
    by_base, *_ = np.linalg.lstsq(base.matrix.T, matrix.T, rcond=None)
    return BodyParameters(matrix, by_base.T @ base.value, by_base.T @ base.covariance @ by_base)


def _gravity_columns(robot: RobotModel, q: Float) -> Float:
    """Gravity torque (10 nb, N, n) per unit of each inertial parameter; zero for moments of inertia."""
    torque = np.zeros((10 * robot.n_bodies, len(q), robot.n))
    for i in range(robot.n_bodies):
        for k in range(OF_GRAVITY):
            unit = np.zeros((robot.n_bodies, 10))
            unit[i, k] = 1.0
            torque[10 * i + k] = gravity_torque(robot.tree, unit, q) @ robot.projection
    return torque


def _whitening(covariance: Float) -> tuple[Float, float]:
    """Cholesky factor L (b, b) of a covariance L L', and the logarithm of its determinant."""
    size = np.sqrt(np.diag(covariance))
    size = np.where(size > 0, size, 1.0)
    L = np.linalg.cholesky(covariance / np.outer(size, size) + LEAST_VARIANCE * np.eye(len(size)))
    L = L * size[:, None]
    return L, float(2.0 * np.log(np.diag(L)).sum())


def _criterion(covariance: Float, columns: Float, wanted: Float) -> float:
    """Akaike's criterion of `wanted` (b,) explained by columns (b, c), up to a constant.

    It is -2 log p + 2 rank, where p is the marginal likelihood of `wanted`: normal about the columns with the
    covariance s^2 C, with s^2 inverse chi-squared about USUAL_SCATTER^2.
    """
    L, log_determinant = _whitening(covariance)
    A, y = np.linalg.solve(L, columns), np.linalg.solve(L, wanted)
    U, size, _ = np.linalg.svd(A, full_matrices=False)
    Q = U[:, size > SHOWN * size.max(initial=0.0)]
    remainder = float(((y - Q @ (Q.T @ y)) ** 2).sum())
    scatter = float(np.log(SCATTER_WEIGHT * USUAL_SCATTER**2 + remainder))
    return (SCATTER_WEIGHT + len(y)) * scatter + log_determinant + 2.0 * int(Q.shape[1])


# Factor between identified and file torque above which a unit is wrong; above GEARED it may be wrong.
SIZE_DOUBT = 30.0
# Largest ratio of the links' torque to the measured torque; beyond it, other terms compensate for the links.
MOST_OF_TORQUE = 3.0
# kg/m^3: mass over cubed reach of usual arms, and of arms too heavy to exist, see `heaviness`.
USUAL, HEAVY = 10.0, 100.0
# m: shorter arms are not judged by their reach.
SHORTEST = 0.3
# Share of each joint's torque below which the variation of gravity torque is no larger than the error of a good fit.
WEIGHTLESS = 0.05
# Common factor above which the scale of torque is doubted; robot files know masses to some 15 %.
SCALE_DOUBT = 1.4


def _size_notices(fit: FitAnalysis) -> Iterator[Finding | Hypothesis]:
    """Notices about torque of another size than that of the robot file, or than an arm of this reach can have.

    A factor above 5 is a warning about units, above 30 a doubt. A common factor of all links is doubted from 1.4 on, if
    its interval excludes 1 and no load explains it better.
    """
    sizes = size_against_description(fit)
    if sizes is None or not np.isfinite(sizes).any():
        heavy = heaviness(fit)
        if heavy is not None and heavy > HEAVY:
            yield Finding(
                Level.WARNING,
                "unit-suspicion",
                f"gravity torque corresponds to an arm about {heavy / USUAL:.2g} times as heavy as robots of this "
                "reach: declare unit and side of the effort under [log] (mA, N mm, motor side)",
            )
        else:
            yield from _scale_notices(fit)
        return
    middle = _median_factor(sizes[np.isfinite(sizes)])
    if 1 / SIZE_DOUBT < middle < SIZE_DOUBT:
        scale = tuple(_scale_notices(fit))
        yield from scale
        if scale or 1 / GEARED < middle < GEARED:
            return
    names = ", ".join(
        f"{name} {size:.3g}"
        for name, size in zip(fit.robot.joint_names, sizes, strict=True)
        if np.isfinite(size)
    )
    yield Hypothesis(
        Finding(
            Level.WARNING if 1 / SIZE_DOUBT < middle < SIZE_DOUBT else Level.DOUBT,
            "unit-suspicion",
            f"torque of the identified links {middle:.3g} times that of the robot file ({names})",
            advice=f"{size_advice(middle)}; or correct the masses in the robot file",
        ),
        "a ratio near 1",
    )


@dataclass(frozen=True)
class DriveGain(JointTerm):
    """Relative error of the drive gain: tau_true = (1 + dk_j) tau_nominal, so tau_nominal = Y theta - dk_j tau_nominal.

    The equations have a scale only if some torque is known: without it, dk = -1 and theta = 0 solve them exactly. Use
    this term together with a known payload or a channel of known torque.

    References
    ----------
    Gautier and Briot 2014 (global identification of drive gains with a payload).

    """

    name: str = "drive_gain"
    symbol = "dk"
    words = TermWords(
        symbols=(Symbol("dk", "δk", "", "deviation of the drive gain"),), against_description=_size_notices
    )
    unit_revolute = "1"
    unit_prismatic = "1"
    lower = -1.0
    traits = Traits(Kind.LOG, Side.MOTOR, scale=Scale.FREES)

    def prior(self, robot: RobotModel) -> Float:
        """Zero: the declared gain is correct."""
        return np.zeros(robot.n)

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Minus the measured torque."""
        return -samples.tau


def _median_factor(sizes: Float) -> float:
    """Median of factors; with an even number of joints, the middle factor that is nearer to 1."""
    logs = np.sort(np.log(sizes))
    pair = logs[[(len(logs) - 1) // 2, len(logs) // 2]]
    return float(np.exp(pair[np.abs(pair).argmin()]))


def _scale_notices(fit: FitAnalysis) -> Iterator[Finding | Hypothesis]:
    scale = common_scale(fit)
    if (scale is None or scale.open) and _weightless(fit):
        yield Finding(
            Level.WARNING,
            "scale-not-shown",
            "the log does not show the scale of its torque: gravity acts on too few joints, and the robot file's "
            "inertias do not tell a factor of two. Half of the torque would fit as well, with half of every parameter",
            advice="check torque constants, gear ratios and unit of the effort, or record with a known payload",
        )
        return
    if scale is None or abs(np.log(scale.factor)) < np.log(SCALE_DOUBT) or not scale.sure:
        return
    low, high = scale.limits
    yield Hypothesis(
        Finding(
            Level.DOUBT,
            "torque-scale",
            f"gravity torque {scale.factor:.3g} times that of the robot file ({low:.2g} to {high:.2g} if its masses "
            f"are known to {100 * UNSURE:.2g} %)",
            advice=size_advice(scale.factor)
            or "check torque constants, gear ratios, unit and side of the effort under [log], and the masses of the "
            "robot file; weigh a known payload (dynid payload) to decide which is wrong",
        ),
        "the gravity torque of the robot file",
        instead_of=("payload",),
    )


def _weightless(fit: FitAnalysis) -> bool:
    """Whether the gravity torque of every joint varies by no more than the error of a good fit."""
    base, bodies = fit.body_parameters, fit.remains.bodies
    if base is None or bodies is None:
        return False
    q = fit.robot.tree_motion(*(getattr(fit.remains.motion, name) for name in ("q", "dq", "ddq")))[0]
    varies = (gravity_torque(fit.robot.tree, bodies, q) @ fit.robot.projection).std(axis=0)
    return bool((varies[list(fit.joints)] < WEIGHTLESS * fit.torque_rms[list(fit.joints)]).all())


def size_against_description(fit: FitAnalysis) -> Float | None:
    """Factor (n,) from the torque of the links in the robot file to that of the identified links.

    It is nan if the two are not similar, or if the identified links' torque is far above the measured one: then a rotor
    compensates for it, for example on a vertical axis whose direction is rounded in the robot file.
    None if a link has no parameters in the robot file.
    """
    robot, bodies, motion = fit.robot, fit.remains.bodies, fit.remains.motion
    if bodies is None or not np.isfinite(robot.inertia_prior).all():
        return None
    q, dq, ddq = robot.tree_motion(motion.q, motion.dq, motion.ddq)
    ours, described = (
        inverse_dynamics(robot.tree, body, q, dq, ddq) @ robot.projection
        for body in (bodies, robot.inertia_prior)
    )
    ours, described = ours - ours.mean(axis=0), described - described.mean(axis=0)
    product = (ours * described).sum(axis=0)
    squares = (ours**2).sum(axis=0), (described**2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        alike = product**2 / (squares[0] * squares[1])
        seen = np.sqrt(squares[0]) < MOST_OF_TORQUE * np.linalg.norm(
            motion.tau - motion.tau.mean(axis=0), axis=0
        )
        return np.where((alike > 0.5) & (product > 0) & seen, product / squares[1], np.nan)


def heaviness(fit: FitAnalysis) -> float | None:
    """Least mass that causes the gravity torque over the cube of the arm's length, kg/m^3.

    A gravity torque g(q) needs at least the mass g / (9.81 length) at the end of the arm. Arms with payloads from 6 to
    300 kg are between 2 and 12 kg/m^3, since their structure grows with their size. None without links or length.
    """
    robot, bodies, motion = fit.robot, fit.remains.bodies, fit.remains.motion
    lengths = np.linalg.norm(robot.T_parent_joint[1:, :3, 3], axis=1)
    slides = sum(float(np.ptp(motion.q[:, j])) for j in range(robot.n) if robot.prismatic[j])
    length, g = float(lengths.sum()) + slides, float(np.linalg.norm(robot.gravity))
    if bodies is None or length < SHORTEST or g == 0:
        return None
    q = robot.tree_motion(motion.q, motion.dq, motion.ddq)[0]
    torque = gravity_torque(robot.tree, bodies, q) @ robot.projection
    # A prismatic joint carries the weight without a lever.
    arms = np.where(robot.prismatic, 1.0, length)
    return float((np.abs(torque).max(axis=0) / (g * arms)).max() / length**3)


# Errors of single drive gains.

# Error of a gain that is reported: torque constants are known to a few per cent.
WARN = 0.03
# Error of a gain above which the model is doubted, and 1 + error below which the sign of the effort is doubted.
DOUBT, TURNED = 0.1, 0.5


def _gain_notices(term: GainError, effect: FittedEffect) -> Iterator[Finding | Hypothesis]:
    """Notices about gains with errors above 3 %, 95 % interval included; above 10 %, or with the other sign, doubts."""
    # Without a robot file the identified links may be wrong instead.
    described = bool(np.isfinite(effect.robot.inertia_prior).all())
    for j in term.acting(effect.robot):
        value, half = effect.sizes.get(f"dg{j + 1}", (0.0, 0.0))
        name, factor = effect.robot.joint_names[j], 1.0 + value
        if abs(value) - half <= WARN and factor > TURNED:
            continue
        sign = Hypothesis(
            Finding(
                Level.DOUBT,
                "torque-sign",
                f"effort {factor:.3g} +- {half:.2g} times the torque predicted from the other joints"
                if factor < 0
                else "effort that agrees better with the other joints if its sign is reversed",
                Place(joint=name),
                advice=f"set effort.sign = {{ {name} = -1 }} under [log]",
            ),
            "effort with the sign of the torque that drives the motion",
        )
        if factor + half < 0:
            yield sign
            continue
        doubted = abs(value) - half > DOUBT and factor > 0
        lesser = Level.WARNING if described else Level.NOTE
        yield Hypothesis(
            Finding(
                Level.DOUBT if doubted else lesser,
                "drive-gain",
                f"torque of '{name}' {100 * abs(value):.3g} +- {100 * half:.2g} % too "
                f"{'large' if value > 0 else 'small'} compared with the other joints",
                Place(joint=name),
                advice=size_advice(factor)
                or "check this joint's torque constant or sensor, gear ratio and effort unit",
            ),
            "the same scale of torque on all joints",
            declared=Declared(factors={j: factor}),
            lesser=lesser,
            rivals=(Rival.POSITION, Rival.FRICTION, Rival.ZERO, Rival.CROSSTALK),
            held="; the model contains it",
            sign=sign,
        )


def _gain_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """One gain per joint, relative to a joint whose gain is taken as correct."""
    term = GainError(log.inertia, log.drives, robot.joint_names)
    return (proposal_by_joint(robot, term, "gain", "off on {joints}", measured=True, relative=True),)


@dataclass(frozen=True)
class GainError(NominalTerm):
    """Errors of drive gains relative to the other joints: tau_j (1 + dg_j), with tau of a nominal model.

    A common factor of all gains cannot be distinguished from the size of the robot, so one joint has to be left out.

    Attributes
    ----------
    inertia, drives : tuple of float
        Nominal model, see `Nominal`.
    joints : tuple of str
        Joints whose gain is estimated; () = all except the first.

    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    joints: tuple[str, ...] = ()
    name: str = "gain_error"
    traits = replace(NominalTerm.traits, kind=Kind.LOG, hides_wiring=True)
    selection = Selection(Role.LOG, Question("gains", "as logged"), _gain_proposals)
    words = TermWords(
        symbols=(Symbol("dg", "δg", "", "deviation of the drive gain from the first joint's"),),
        notices=_gain_notices,
    )

    def acting(self, robot: RobotModel) -> tuple[int, ...]:
        """Indices of the joints whose gain is estimated."""
        return joint_indices(robot, self.joints) if self.joints else tuple(range(1, robot.n))

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One gain per joint."""
        return tuple(
            Column(f"dg{j + 1}", "1", self.name, j, prior=0.0, moved_by=(j,)) for j in self.acting(robot)
        )

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Nominal torque of each joint by itself."""
        torque = self.nominal.torque(robot, samples)
        return tuple(torque * (np.arange(robot.n) == j) for j in self.acting(robot))

    def line_slopes(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Derivatives of the nominal torque of each joint by itself."""
        slopes = self.nominal.torque_slopes(robot, samples)
        return tuple(slopes * (np.arange(robot.n) == j) for j in self.acting(robot))
