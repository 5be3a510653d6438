"""Drive gain: the factor between what the drive reports and the torque at the joint."""

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
from dynid.terms.payload import UNSURE, outermost, unsure_description
from dynid.terms.residual_tests import (
    BodyParameters,
    Declared,
    FitAnalysis,
    Held,
    Hypothesis,
    Rival,
    TermWords,
)
from dynid.terms.term import JointTerm, Proposal, Selection, Term, joint_indices, proposal_by_joint

# One factor between gravity's torque and that of the described bodies, and how far a description can prove
# it.

# Chance that a description whose masses and centres are off as much as UNSURE says shows a factor that is none.
SCALE_CHANCE = 0.05
# Of Akaike's criterion: by more a load is clearly the better explanation (Burnham and Anderson 2002, section 2.6).
CLEAR = 4.0
# Of the largest singular value: what is more than rounding; samples that are enough to see what gravity shows.
SHOWN, FEW = 1e-7, 200
# Cosine of the angle between what gravity's torque shows and what the fit knows, from which on both are one.
KNOWN = 1.0 - 1e-6
# Of each variance: no exact agreement is asked of a description.
LEAST_VARIANCE = 1e-6
# Descriptions know masses to some 15 %, as a share of UNSURE; that weighs as much as so many parameters' own scatter.
USUAL_SCATTER, SCATTER_WEIGHT = 0.15 / UNSURE, 4.0
# Changes of log(factor) that end the iteration, and its rounds.
SETTLED, ROUNDS = 1e-6, 50
# kg, kg m: mass and first moments of a body among its ten parameters.
OF_GRAVITY = 4


@dataclass(frozen=True)
class CommonScale:
    """One factor from the description's gravity torque to the identified bodies'.

    std: of its logarithm, from how far the bodies scatter about the factor, and from UNSURE at least.
    by_load: by how much Akaike's criterion prefers a load on one of the outermost bodies; > 0: the load.
    """

    factor: float
    std: float
    by_load: float

    @property
    def limits(self) -> tuple[float, float]:
        """Between these the factor lies, but for SCALE_CHANCE."""
        reach = normal_quantile(1.0 - 0.5 * SCALE_CHANCE) * self.std
        return float(self.factor * np.exp(-reach)), float(self.factor * np.exp(reach))

    @property
    def sure(self) -> bool:
        """Whether a factor of one lies beyond the limits, and no load explains the bodies clearly better."""
        low, high = self.limits
        return not low <= 1.0 <= high and self.by_load <= CLEAR


def common_scale(fit: FitAnalysis) -> CommonScale | None:
    """The one factor k that brings the description's masses and first moments closest to the identified ones.

    With G the combinations of both that gravity's torque shows, beta = G pi of the fit and b = G pi0 of the
    description, beta - k b has the covariance C = cov(beta) + k^2 G S G', S: how well a description is known (see
    `find_load`). So k = b' C^-1 beta / b' C^-1 b and std(log k) = s / (k sqrt(b' C^-1 b)), where s^2 is the mean
    square of what k leaves, in the metric of C, and 1 at least: all bodies share a wrong scale of torque, errors of a
    description are each body's own. Gravity's torque alone is free of rotors.
    None without a description of every body, or where gravity's torque shows too little or opposes the description.
    Source: Aitken 1936 (generalised least squares); Akaike 1974, Gelman et al. 2013, section 3.2 (by_load).
    """
    robot, base = fit.robot, fit.body_parameters
    if base is None or not np.isfinite(robot.inertia_prior).all() or (robot.inertia_prior[:, 0] <= 0).any():
        return None
    shown = gravity_parameters(fit, base)
    described = shown.matrix @ robot.inertia_prior.ravel()
    unsure = shown.matrix @ unsure_description(robot) @ shown.matrix.T
    if len(described) < 2 or not np.isfinite(shown.covariance).all():
        return None
    factor = 1.0
    for _ in range(ROUNDS):
        L, _ = _whitening(shown.covariance + factor**2 * unsure)
        b, beta = np.linalg.solve(L, np.column_stack([described, shown.value])).T
        found = float(b @ beta) / max(float(b @ b), 1e-300)
        if found <= 0:
            return None
        factor, before = found, factor
        if abs(np.log(factor / before)) < SETTLED:
            break
    left = float(((beta - factor * b) ** 2).sum())
    scatter = max(1.0, np.sqrt(left / (len(b) - 1)))
    loads = [shown.matrix[:, 10 * i : 10 * i + OF_GRAVITY] for i in outermost(robot)]
    criterion = _criterion(shown.covariance + factor**2 * unsure, described[:, None], shown.value)
    rivals = [_criterion(shown.covariance + unsure, columns, shown.value - described) for columns in loads]
    return CommonScale(factor, float(scatter / (factor * np.sqrt(b @ b))), criterion - min(rivals))


def gravity_parameters(fit: FitAnalysis, base: BodyParameters) -> BodyParameters:
    """Combinations of masses and first moments that gravity's torque shows, as far as the fit knows them.

    Those of joints that moved and whose gravity no term of the model may carry.
    """
    robot, motion = fit.robot, fit.remains.motion
    some = slice(None, None, max(1, len(motion.q) // FEW))
    q = robot.tree_motion(motion.q, motion.dq, motion.ddq)[0][some]
    usable = np.isin(np.arange(robot.n), fit.joints) & ~fit.balanced
    columns = _gravity_columns(robot, q)[:, :, usable].reshape(10 * robot.n_bodies, -1)
    directions, size, _ = np.linalg.svd(columns, full_matrices=False)
    of_gravity = directions[:, size > SHOWN * size.max(initial=0.0)].T
    rows, _ = np.linalg.qr(base.matrix.T)
    turned, cosine, _ = np.linalg.svd(of_gravity @ rows, full_matrices=False)
    matrix = turned[:, cosine > KNOWN].T @ of_gravity
    by_base, *_ = np.linalg.lstsq(base.matrix.T, matrix.T, rcond=None)
    return BodyParameters(matrix, by_base.T @ base.value, by_base.T @ base.covariance @ by_base)


def _gravity_columns(robot: RobotModel, q: Float) -> Float:
    """Gravity's torque (10 nb, N, n) of each body's mass and first moments by one; of its inertia none."""
    found = np.zeros((10 * robot.n_bodies, len(q), robot.n))
    for i in range(robot.n_bodies):
        for k in range(OF_GRAVITY):
            one = np.zeros((robot.n_bodies, 10))
            one[i, k] = 1.0
            found[10 * i + k] = gravity_torque(robot.tree, one, q) @ robot.projection
    return found


def _whitening(covariance: Float) -> tuple[Float, float]:
    """The factor L (b, b) of a covariance L L', and the logarithm of its determinant."""
    size = np.sqrt(np.diag(covariance))
    size = np.where(size > 0, size, 1.0)
    L = np.linalg.cholesky(covariance / np.outer(size, size) + LEAST_VARIANCE * np.eye(len(size)))
    L = L * size[:, None]
    return L, float(2.0 * np.log(np.diag(L)).sum())


def _criterion(covariance: Float, columns: Float, wanted: Float) -> float:
    """Akaike's criterion of wanted (b,) explained by columns (b, c), up to a constant.

    -2 log p + 2 rank, p: the marginal likelihood of wanted, normal about the columns with covariance s^2 C, where s^2
    is inverse chi-squared about USUAL_SCATTER^2.
    """
    L, log_determinant = _whitening(covariance)
    A, y = np.linalg.solve(L, columns), np.linalg.solve(L, wanted)
    U, size, _ = np.linalg.svd(A, full_matrices=False)
    Q = U[:, size > SHOWN * size.max(initial=0.0)]
    left = float(((y - Q @ (Q.T @ y)) ** 2).sum())
    scatter = float(np.log(SCATTER_WEIGHT * USUAL_SCATTER**2 + left))
    return (SCATTER_WEIGHT + len(y)) * scatter + log_determinant + 2.0 * int(Q.shape[1])


# Factor between the torque of described and of identified bodies from which on a unit is wrong; from GEARED on it may
# be.
SIZE_DOUBT = 30.0
# Friction and rotors may take away some of the bodies' torque, which is at most so many times the measured one.
MOST_OF_TORQUE = 3.0
# kg/m^3: what real arms weigh for their reach, see `heaviness`.
USUAL, HEAVY = 10.0, 100.0
# m; a shorter arm has no reach to be heavy for.
SHORTEST = 0.3
# Descriptions know masses to some 15 %: a common factor of 1.4 is beyond that.
SCALE_DOUBT = 1.4


def _size_notices(fit: FitAnalysis) -> Iterator[Finding | Hypothesis]:
    """Torque of another size than the described bodies', or than an arm of this reach can have.

    Over a factor of 5 units are suspected, over 30 doubted; one factor on all bodies is doubted from 1.4 on,
    where the description is known well enough to tell and no load explains it better.
    """
    sizes = size_against_description(fit)
    if sizes is None or not np.isfinite(sizes).any():
        heavy = heaviness(fit)
        if heavy is not None and heavy > HEAVY:
            yield Finding(
                Level.WARNING,
                "unit-suspicion",
                f"gravity's torque would need an arm about {heavy / USUAL:.2g} times as heavy as robots of this "
                "reach are: declare unit and side of the effort under [log] (mA, N mm, motor side)",
            )
        return
    middle = _agreed(sizes[np.isfinite(sizes)])
    if 1 / SIZE_DOUBT < middle < SIZE_DOUBT:
        scale = tuple(_of_scale(fit))
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
            f"identified bodies whose torque is {middle:.3g} times that of the described ones ({names})",
            advice=f"{size_advice(middle)}; or correct the description's masses",
        ),
        "a ratio near 1",
    )


@dataclass(frozen=True)
class DriveGain(JointTerm):
    """Relative error of the drive gain: tau_true = (1 + dk_j) tau_nominal.

    So tau_nominal = Y theta - dk_j tau_nominal.
    Only a torque known from elsewhere gives the equations a scale: without one, dk = -1 and theta = 0 solve
    them exactly. Use it together with a known payload or a channel of known torque.
    Source: Gautier and Briot 2014 (global identification of drive gains with a payload).
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
        """Zero: the declared gain is right."""
        return np.zeros(robot.n)

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Minus the torque by the declared gain."""
        return -samples.tau


def _agreed(sizes: Float) -> float:
    """The factor that half of the joints exceed at least: of the two in the middle the one that is nearer to one."""
    logs = np.sort(np.log(sizes))
    pair = logs[[(len(logs) - 1) // 2, len(logs) // 2]]
    return float(np.exp(pair[np.abs(pair).argmin()]))


def _of_scale(fit: FitAnalysis) -> Iterator[Finding | Hypothesis]:
    scale = common_scale(fit)
    if scale is None or abs(np.log(scale.factor)) < np.log(SCALE_DOUBT) or not scale.sure:
        return
    low, high = scale.limits
    yield Hypothesis(
        Finding(
            Level.DOUBT,
            "torque-scale",
            f"gravity torque {scale.factor:.3g} times that of the description ({low:.2g} to {high:.2g} where its "
            f"masses are known to {100 * UNSURE:.2g} %)",
            advice=size_advice(scale.factor)
            or "check torque constants, gear ratios and the unit and side of the effort under [log], or the "
            "description's masses; weigh a known payload (dynid payload) to find out which",
        ),
        "the masses of the description, or a scale of torque that is known",
        instead_of=("payload",),
    )


def size_against_description(fit: FitAnalysis) -> Float | None:
    """(n,) factor from the described bodies' torque to the identified bodies'; nan where the two do not look alike.

    None without a description of every body. Bodies whose torque is far beyond the measured one say nothing of it: a
    rotor takes it away again, as on an upright axis whose written direction is rounded.
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
    """Least mass that gravity's torque takes, over the cube of the arm's length, kg/m^3; None without bodies or length.

    A torque g(q) on a joint takes a mass of g / (9.81 length) at the arm's end. Arms from 6 to 300 kg of payload lie
    between 2 and 12 kg/m^3, since what bears them grows with them.
    """
    robot, bodies, motion = fit.robot, fit.remains.bodies, fit.remains.motion
    lengths = np.linalg.norm(robot.T_parent_joint[1:, :3, 3], axis=1)
    slides = sum(float(np.ptp(motion.q[:, j])) for j in range(robot.n) if robot.prismatic[j])
    length, g = float(lengths.sum()) + slides, float(np.linalg.norm(robot.gravity))
    if bodies is None or length < SHORTEST or g == 0:
        return None
    q = robot.tree_motion(motion.q, motion.dq, motion.ddq)[0]
    torque = gravity_torque(robot.tree, bodies, q) @ robot.projection
    # A slide carries the mass itself, without a lever.
    arms = np.where(robot.prismatic, 1.0, length)
    return float((np.abs(torque).max(axis=0) / (g * arms)).max() / length**3)


# Drive gains that are off.

# Share by which a drive's torque may be off: torque constants are known to a few per cent.
WARN = 0.03
# Share from which a gain may overturn a model; and share of the torque that is left below which its sign is doubtful.
DOUBT, TURNED = 0.1, 0.5


def _gain_notices(term: GainError, held: Held) -> Iterator[Finding | Hypothesis]:
    """Over 3 %, 95 % interval included; over a tenth, or of the other sign, it is doubted."""
    # Bodies that nobody has described may be the ones that are wrong.
    described = bool(np.isfinite(held.robot.inertia_prior).all())
    for j in term.acting(held.robot):
        value, half = held.sizes.get(f"dg{j + 1}", (0.0, 0.0))
        name, factor = held.robot.joint_names[j], 1.0 + value
        if abs(value) - half <= WARN and factor > TURNED:
            continue
        sign = Hypothesis(
            Finding(
                Level.DOUBT,
                "torque-sign",
                f"effort that is {factor:.3g} +- {half:.2g} times what the other joints say of the bodies"
                if factor < 0
                else "effort that fits the bodies that the other joints show better with the other sign",
                Place(joint=name),
                advice=f"set effort.sign = {{ {name} = -1 }} under [log]",
            ),
            "effort that drives the motion",
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
                f"torque of '{name}' that is {100 * abs(value):.3g} +- {100 * half:.2g} % too "
                f"{'large' if value > 0 else 'small'} for the bodies that the other joints' torque shows",
                Place(joint=name),
                advice=size_advice(factor)
                or "check this joint's torque constant or sensor, gear ratio and effort unit",
            ),
            "one scale of all joints' torque",
            declared=Declared(factors={j: factor}),
            lesser=lesser,
            rivals=(Rival.POSITION, Rival.FRICTION, Rival.ZERO, Rival.CROSSTALK),
            held="; the model contains it",
            sign=sign,
        )


def _gain_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """Joint by joint, relative to one whose gain is taken for right."""
    term = GainError(log.inertia, log.drives, robot.joint_names)
    return (proposal_by_joint(robot, term, "gain", "off on {joints}", measured=True, relative=True),)


@dataclass(frozen=True)
class GainError(NominalTerm):
    """Drive gains that are off, relative to the other joints: tau_j (1 + dg_j), tau of a nominal model.

    All gains together cannot be distinguished from the size of the robot, so one joint has to be left out.
    joints: names of the joints whose gain is free; empty = all but the first.
    inertia, drives: the nominal model, see Nominal.
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
        cause="the drive gain of '{joint}'",
        cause_of_kind="the drive gains of {joints} (drives of {effort})",
    )

    def acting(self, robot: RobotModel) -> tuple[int, ...]:
        """Joints whose gain is free."""
        return joint_indices(robot, self.joints) if self.joints else tuple(range(1, robot.n))

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One a free joint."""
        return tuple(
            Column(f"dg{j + 1}", "1", self.name, j, prior=0.0, moved_by=(j,)) for j in self.acting(robot)
        )

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """The nominal torque of one joint each."""
        torque = self.nominal.torque(robot, samples)
        return tuple(torque * (np.arange(robot.n) == j) for j in self.acting(robot))

    def line_slopes(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Those of the nominal torque."""
        slopes = self.nominal.torque_slopes(robot, samples)
        return tuple(slopes * (np.arange(robot.n) == j) for j in self.acting(robot))
