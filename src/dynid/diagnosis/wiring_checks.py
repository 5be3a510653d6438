"""Other readings of a log: joints exchanged, signs turned, gravity taken off or from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, cached_property
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Claim, Diagnostics
from dynid.base.errors import Place
from dynid.base.records import dataclass, listed
from dynid.diagnosis.proof import CHANCE, HeldOut, Reading, chance_of_gain
from dynid.diagnosis.residual_analysis import ResidualAnalysis, regressor
from dynid.kernel import cho_factor, cho_solve
from dynid.log.prior_check import TURNED, square
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.spatial.algebra import rotation_about
from dynid.terms.exports import Kind, Scale, Side
from dynid.terms.term import JointTerm, Terms

# Another mount as a reading of the log: on a wall, hanging or inclined, without the masses of the
# description.

# Degrees by which the best of the base's axes is turned first, and how often that step is halved: to two degrees.
STEP, HALVED = 30.0, 4


def mountings(robot: RobotModel) -> Iterator[Float]:
    """Gravity (3,) along each axis of the base that is not the declared one, m/s^2."""
    size = float(np.linalg.norm(robot.gravity))
    if size == 0:
        return
    for axis in (*np.eye(3), *-np.eye(3)):
        if degrees_between(axis, robot.gravity) > TURNED:
            yield size * axis


def best_mounting(robot: RobotModel, gain: Callable[[Float], float]) -> Float | None:
    """Gravity (3,) that gains most, more than TURNED degrees off the declared one; None where none of the axes gains.

    gain: of a direction of gravity (3,) over the declared one, more is better.
    """
    gravity, found = None, 0.0
    for one in mountings(robot):
        value = gain(one)
        if value > found:
            gravity, found = one, value
    if gravity is None:
        return None
    step = STEP
    for _ in range(HALVED):
        turned = [rotation_about(axis, np.deg2rad(a)) @ gravity for axis in np.eye(3) for a in (step, -step)]
        values = [gain(one) for one in turned]
        best = int(np.argmax(values))
        if values[best] > found:
            gravity, found = turned[best], values[best]
        step *= 0.5
    if degrees_between(gravity, robot.gravity) < TURNED:
        return None
    size = float(np.linalg.norm(gravity))
    return square(gravity / size) * size


def degrees_between(a: Float, b: Float) -> float:
    """The angle of two vectors (3,)."""
    cosine = float(a @ b) / float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


# Motors that share gears, and angles that count other joints', as readings of the log.

# Usual factors by which motors turn with other joints, from which the search starts beside the first order's.
GEARS = (1.0, -1.0)
# By which the motors of a differential turn with the second of its joints, over the first: powers of this, from half to
# twice, of which the best is refined by steps of the exponent from 1, halved so often: to 1 %, and up to four times.
SHARED_GEARS_STEP, STEPS, SHARED_GEARS_HALVED = 2.0**0.5, (-2.0, 0.0, 2.0), 7
# Step of a factor for derivatives; pairs of motor and joint that are looked at beyond first order; rounds of steps.
FACTOR_STEP, TRIED, POLISHED = 1e-4, 2, 3
# Factors this close are the same.
SAME_FACTOR = 0.02


@dataclass(frozen=True, eq=False)
class SharedGears:
    """Motors that turn by theta = M q, relative to the declared gears, with torque u = M^-T tau.

    Attributes
    ----------
    M : ndarray, shape (n, n)
        Identity on the rows of motors with gears of their own.
    motors : tuple of int
        Motors that share gears.
    counted : bool
        Whether the log has theta instead of q.
    driven : bool
        Whether the log has u instead of tau.

    """

    M: Float
    motors: tuple[int, ...]
    counted: bool = False
    driven: bool = True

    @staticmethod
    def differential(
        n: int, first: int, second: int, factor: float, sign: float, counted: bool, driven: bool
    ) -> SharedGears:
        """Two motors, both turned by both joints: theta = (q_1 + f q_2, s (q_1 - f q_2))."""
        M, pair = np.eye(n), [first, second]
        M[np.ix_(pair, pair)] = [[1.0, factor], [sign, -sign * factor]]
        return SharedGears(M, (first, second), counted, driven)

    def with_factor(self, motor: int, joint: int, factor: float) -> SharedGears:
        """These gears with another factor by which a motor turns with a joint."""
        M = np.array(self.M)
        M[motor, joint] = factor
        return replace(self, M=M, motors=tuple(sorted({*self.motors, motor})))

    def moved(self, changes: Mapping[tuple[int, int], float]) -> SharedGears:
        """These gears with changed factors of motors with joints."""
        gears = self
        for (motor, joint), change in changes.items():
            gears = gears.with_factor(motor, joint, float(self.M[motor, joint] + change))
        turning = (np.abs(gears.M) > RIDGE) & ~np.eye(len(gears.M), dtype=np.bool_)
        M = np.where(turning | np.eye(len(gears.M), dtype=np.bool_), gears.M, 0.0)
        return replace(gears, M=M, motors=tuple(np.flatnonzero(turning.any(axis=1)).tolist()))

    @property
    def whole(self) -> list[tuple[int, int]]:
        """Couplings by whole turns, and all of a differential."""
        both = [pair for pair in self.couplings if self.M[pair[::-1]] != 0]
        return [pair for pair in self.couplings if pair in both or self.M[pair] in GEARS]

    @property
    def couplings(self) -> list[tuple[int, int]]:
        """Motors with the other joints that they turn with."""
        return [(int(i), int(j)) for i, j in np.argwhere(self.M != 0) if i != j]

    def regressor(
        self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool, at_motors: bool
    ) -> Float | None:
        """Columns (n, N, w) of the logged torque; None if a term reads more than motion.

        at_motors: whether friction is that of the motors and not of the joints. Rotors always turn with the motors.
        """
        N, inverse = robot.drive.transmission, np.linalg.inv(self.M)
        relative = N / robot.drive.own_ratio[:, None]  # motions of the motors over their own gear ratios
        real = robot
        if robot.drive.coupled:  # terms of its motors read the transmission
            real = replace(robot, drive=replace(robot.drive, transmission=N @ self.M))
        moved = _mapped(samples, inverse) if self.counted else samples
        columns, complete = regressor(real, terms, moved, wanted)
        if not complete:
            return None
        if not self.driven:
            return columns
        columns = np.tensordot(inverse.T, columns, 1)
        motors = _mapped(samples, relative if self.counted else relative @ self.M)
        first, place = 0, np.cumsum(wanted) - 1
        for term in terms:
            own = slice(first, first := first + len(term.columns(robot)))
            of_motor = isinstance(term, JointTerm) and term.traits.side is Side.MOTOR
            if of_motor and (at_motors or term.traits.kind is Kind.ROTORS) and wanted[own].any():
                values, _ = regressor(robot, Terms((term,)), motors, wanted[own])
                columns[:, :, place[own][wanted[own]]] = np.tensordot(relative.T, values, 1)
        return np.asarray(columns)

    def words(self, robot: RobotModel) -> tuple[str, str]:
        """What the motors do, and how it is declared."""
        names = robot.joint_names
        motors = " and ".join(f"'{names[motor]}'" for motor in self.motors)
        N = robot.drive.transmission @ self.M
        # Remains of factors that cancel, which no log tells from zero.
        slides = np.array(robot.prismatic)
        alike = slides[:, None] == slides  # rad a metre and turns a turn have no common size
        N = np.where(alike & (np.abs(N) < SAME_FACTOR * np.abs(robot.drive.own_ratio[:, None])), 0.0, N)
        rows = ", ".join(f"[{', '.join(f'{value:.4g}' for value in row)}]" for row in N)
        matrix = f"transmission = [{rows}] under [drive]"
        differential = (
            len(self.motors) == 2
            and self.M[self.motors[1], self.motors[0]] != 0 != self.M[self.motors[0], self.motors[1]]
        )
        turns = ", ".join(
            f"that of '{names[motor]}' with {self.M[motor, joint]:.3g} times '{names[joint]}'"
            for motor, joint in self.couplings
        )
        if self.counted and self.driven:
            what = (
                f"angles and torque of the two motors of a differential that moves {motors} together"
                if differential
                else f"angles and torque of motors that turn with other joints, too: {turns}"
            )
            return (
                what,
                f'declare {matrix}, with position.side = "motor" and the effort of the motors under [log]',
            )
        if self.counted:
            if not differential and len(self.couplings) == 1:
                ((motor, joint),) = self.couplings
                return self._words_of_angles(names[motor], names[joint], float(self.M[motor, joint]))
            return (
                f"angles of motors that turn with several joints, {turns}, and torque of the joints",
                f'correct the log, or declare {matrix}, with position.side = "motor" and effort.side = "link" under '
                "[log]",
            )
        if differential:
            return (
                f"torque of the two motors of a differential that moves {motors} together",
                f"declare it ({matrix}, each row times the gear ratio where torque is that of a shaft, and "
                'torque_side = "motor") in a TOML file of the robot',
            )
        declared = " ".join(
            f'[[drive.coupling]] motor = "{names[motor]}", joint = "{names[joint]}", factor = '
            f"{self.M[motor, joint]:.3g}"
            for motor, joint in self.couplings
        )
        return (
            f"torque of motors that turn with other joints, too: {turns}",
            f'declare what turns with what ({declared}) and torque_side = "motor" under [drive]',
        )

    def _words_of_angles(self, motor: str, joint: str, factor: float) -> tuple[str, str]:
        other = "minus" if factor > 0 else "plus"
        times = "" if abs(abs(factor) - 1) < SAME_FACTOR else f"{abs(factor):.3g} times "
        return (
            f"an angle of '{motor}' that counts that of '{joint}', too, as one to the horizontal does: the joint's is "
            f"the logged one {other} {times}that of '{joint}'",
            f'correct the log, or declare it ([[drive.coupling]] motor = "{motor}", joint = "{joint}", factor = '
            f'{factor:.3g}) with position.side = "motor" and effort.side = "link" under [log]',
        )


def _mapped(samples: Samples, matrix: npt.NDArray[np.floating[Any]]) -> Samples:
    motion = {name: getattr(samples, name) @ matrix.T for name in ("q", "dq", "ddq")}
    return replace(samples, **motion)


SAMPLES = 250
# A joint that misses more than this share of its torque's variance makes other wirings worth a try.
POOR = 0.01
RIDGE = 1e-10
# The product of the joints' mean square errors has to fall by this factor.
DECISIVE = 6.0
# A reading that is right leaves the joints that it changes at most this share of their torque, and of what they missed.
FITS, MENDS = 0.25, 0.5
# A joint that misses more than this share of its torque is far from any use.
LARGE = 0.5
WIRING = ("joint-order", "torque-sign", "position-sign")
LEAST_SAMPLES = 30


@dataclass(frozen=True, eq=False)
class Interpretation:
    """A reading of the log.    identifier, what, do: of the claim.    joints: whose channels it changes."""

    identifier: Claim
    what: str
    do: str
    joints: tuple[int, ...]
    robot: RobotModel
    samples: Samples

    @property
    def reading(self) -> Reading:
        """The log so read."""
        weightless = self.joints if self.identifier == "gravity-compensated" else ()
        return Reading(self.robot, self.samples, weightless)


def check_wiring(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> bool:
    """Fits the plain model to other readings of the log, and doubts it if one of them fits well and decisively better.

    Each reading is fitted by least squares to some hundred samples, without the terms that could take up a wrong
    reading; readings are compared by the sum over joints of the logarithm of the mean square error.
    Warns of joints that miss most of their torque in every reading, and of a motor that turns with a second joint,
    where that mends as much as what it would be taken for.
    Returns whether a reading is doubted: what else residuals show of joints rests on their columns.
    Claims: joint-order, torque-sign, position-sign, gravity-compensated or tilted-base.
    """
    if not analysis.enough or len(analysis.joints) < analysis.robot.n:
        # The torque of motion that was not logged makes any reading look better than another.
        return False
    if any(term.traits.scale is Scale.FREES for term in analysis.terms):
        # With free gains every reading of the torque is right.
        return False
    samples = thinned(analysis)
    declared = misfits(analysis, analysis.robot, samples)
    if declared is None:
        return False
    every = tuple(range(analysis.robot.n))
    readings = [without_gravity(analysis.robot, samples, every)]
    if (declared > POOR).any():
        readings += [*wirings(analysis.robot, samples), *mounted(analysis, samples, declared)]
    found = _better(analysis, samples, declared, readings)
    coupled = _coupled(analysis, samples)
    if coupled is not None and (found is None or coupled.gain > _gain(found[1] ** 2, found[2] ** 2)):
        diagnostics.warn("undeclared-coupling", coupled.text(analysis.robot))
        return False
    if found is not None and _predicts(analysis, found[0]):
        best, before, after = found
        worst = int(np.nanargmax(before - after))
        diagnostics.claim(
            best.identifier,
            found=f"{best.what}: the fit misses {100 * before[worst]:.3g} % of the torque of "
            f"'{analysis.robot.joint_names[worst]}' as declared, and {100 * after[worst]:.3g} % when read so",
            expected="a log that fits best as it is declared",
            do=best.do,
            place=Place(
                joint=analysis.robot.joint_names[best.joints[0]] if best.identifier in WIRING else None
            ),
        )
        return best.identifier not in diagnostics.accepting
    _add_large(analysis, np.sqrt(declared), diagnostics)
    return False


def _better(
    analysis: ResidualAnalysis, samples: Samples, declared: Float, readings: Sequence[Interpretation]
) -> tuple[Interpretation, Float, Float] | None:
    """The reading that fits best, if it fits well and decisively better, and what both leave of each torque, (n,).

    declared: mean square errors (n,) of the log as it is declared.
    """
    values = [misfit_of(analysis, one.reading) for one in readings]
    gains = [-np.inf if one is None else _gain(declared, one) for one in values]
    for k in np.argsort(-np.array(gains), kind="stable").tolist():
        one, value = readings[k], values[k]
        if value is None or gains[k] <= np.log(DECISIVE):
            return None
        before = declared
        if samples.gate is not None and one.identifier == "joint-order":
            # Joints are judged while they move. Where one stands while the other moves, exchanged columns were judged
            # at other times, and torque at rest is soon explained: both readings have to explain the times of both.
            gate, pair = np.array(samples.gate), list(one.joints)
            gate[:, pair] = gate[:, pair].max(axis=1, keepdims=True)
            errors = [
                misfits(analysis, robot, replace(motion, gate=gate))
                for robot, motion in ((analysis.robot, samples), (one.robot, one.samples))
            ]
            if errors[0] is None or errors[1] is None:
                continue
            before, value = errors[0], errors[1]
        before_after = np.sqrt(before), np.sqrt(value)
        if _gain(before, value) > np.log(DECISIVE) and _mends(one, *before_after):
            return one, *before_after
        if before is declared:
            return None
    return None


@dataclass(frozen=True, eq=False)
class _Shared:
    """A reading of shared gears and its gain, see `_gain`.    before, after: (n,) shares of torque that are missed."""

    gears: SharedGears
    gain: float
    before: Float
    after: Float

    def text(self, robot: RobotModel) -> str:
        """What was found, and what to declare."""
        worst, names = int(np.nanargmax(self.before - self.after)), robot.joint_names
        what, declare = self.gears.words(robot)
        if not self.gears.counted and np.isfinite(robot.drive.drive_gain).any():
            # A gain is N m at the joint, whatever turns with it.
            declare += ", with torque_constant, N m of a motor per ampere, in place of drive_gain for a log of currents"
        return (
            f"{what}: so read, the fit misses {100 * self.after[worst]:.3g} % of the torque of '{names[worst]}', and "
            f"{100 * self.before[worst]:.3g} % as declared; {declare}, in a TOML file of the robot, which takes the "
            "rest from the one at hand (urdf = its name)"
            + ("" if self.gears.counted else ", or log the joints' torque")
        )


def _predicts(analysis: ResidualAnalysis, reading: Interpretation) -> bool:
    """Whether a reading predicts held-out blocks better beyond chance, and than plain friction does.

    What it fits it may have merely bent to; a sign that is turned, or another joint's torque, looks like friction where
    joints move once or twice.
    """
    samples = analysis.gated
    readings = (
        without_gravity(analysis.robot, samples, tuple(range(analysis.robot.n))),
        *wirings(analysis.robot, samples),
        replace(reading, samples=samples),
    )
    same = next(one for one in readings if (one.identifier, one.what, one.joints) == _key(reading))
    plain = Reading(analysis.robot, samples)
    fits = [
        HeldOut.of(analysis, plain),
        HeldOut.of(analysis, same.reading),
        HeldOut.of(analysis, plain, plain_friction(samples)),
    ]
    if fits[0] is None or fits[1] is None or fits[2] is None:
        return False
    before, after = fits[0].error(), fits[1].error()
    rubbed = fits[2].joined(before, analysis.robot.n)
    return chance_of_gain(before.sum(axis=0), after.sum(axis=0)) < CHANCE and bool(after.sum() < rubbed.sum())


def plain_friction(samples: Samples) -> Float:
    """Columns (n, N, 2 n): every joint's velocity and its sign."""
    N, n = samples.dq.shape
    found = np.zeros((n, N, 2 * n))
    for j in range(n):
        found[j, :, 2 * j], found[j, :, 2 * j + 1] = samples.dq[:, j], np.sign(samples.dq[:, j])
    return found


def _key(reading: Interpretation) -> tuple[str, str, tuple[int, ...]]:
    return reading.identifier, reading.what, reading.joints


# What a log may have of motors with shared gears: their torque, their angles, or both.
_FORMS = ((False, True), (True, False), (True, True))


def _coupled(analysis: ResidualAnalysis, samples: Samples) -> _Shared | None:
    """The shared gears that mend most, if they do decisively."""
    if samples.theta is not None:
        return None
    searches = [_GearSearch(analysis, samples, counted, driven) for counted, driven in _FORMS]
    tried = [reading for search in searches for reading in (search.couplings(), search.differential())]
    best = max((one for one in tried if one is not None), key=lambda reading: reading.gain, default=None)
    if best is None:
        return None
    worst = int(np.nanargmax(best.before - best.after))
    fits = best.after[list(best.gears.motors)].max() <= FITS
    if fits:
        finer = _GearSearch(analysis, analysis.gated, best.gears.counted, best.gears.driven)
        gears = finer.polished(best.gears, finer.fit(best.gears), best.gears.whole)[0]
        best = replace(best, gears=gears)
    return best if fits and best.after[worst] <= MENDS * best.before[worst] else None


@dataclass(frozen=True, eq=False)
class _GearSearch:
    """Search of shared gears in one form of the log."""

    analysis: ResidualAnalysis
    samples: Samples
    counted: bool
    driven: bool
    cache: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def declared(self) -> _Fitted | None:
        """The fit of the gears as they are declared."""
        n = self.analysis.robot.n
        return self.fit(SharedGears(np.eye(n), (), self.counted, self.driven))

    def fit(self, gears: SharedGears) -> _Fitted | None:
        """Least squares with friction of the motors or joints, which is better; None for singular gears."""
        if not np.linalg.cond(gears.M) < 1.0 / RIDGE**0.5:
            return None
        fits = [self.fit_with(gears, at_motors) for at_motors in ((True, False) if self.driven else (False,))]
        return max((one for one in fits if one is not None), key=self.gain_over_variance, default=None)

    def fit_with(self, gears: SharedGears, at_motors: bool) -> _Fitted | None:
        """Least squares with friction of the motors, or of the joints; None if terms read more than motion."""
        terms, wanted = self.analysis.plain_model
        Y = gears.regressor(self.analysis.robot, terms, self.samples, wanted, at_motors)
        return (
            None if Y is None else _Fitted.of(self.analysis, self.analysis.robot, self.samples, Y, at_motors)
        )

    @staticmethod
    def gain_over_variance(fitted: _Fitted) -> float:
        """Sum of the logarithms of variance over mean square error."""
        return _gain(np.ones_like(fitted.misfit), fitted.misfit)

    def gain(self, fitted: _Fitted | None) -> float:
        """Sum of the logarithms of mean square errors as declared over those of a fit."""
        return (
            -np.inf if fitted is None or self.declared is None else _gain(self.declared.misfit, fitted.misfit)
        )

    def reading(self, gears: SharedGears, fitted: _Fitted | None) -> _Shared | None:
        """Gears that are decisively better than the declared ones."""
        if fitted is None or self.declared is None or self.gain(fitted) <= np.log(DECISIVE):
            return None
        return _Shared(gears, self.gain(fitted), np.sqrt(self.declared.misfit), np.sqrt(fitted.misfit))

    def change(self, gears: SharedGears, fitted: _Fitted, motor: int, joint: int) -> Float:
        """Change (n, N) of the weighted torque with one factor, less what the model takes up."""
        terms, wanted = self.analysis.plain_model
        nearby = gears.with_factor(motor, joint, gears.M[motor, joint] + FACTOR_STEP)
        Y = nearby.regressor(self.analysis.robot, terms, self.samples, wanted, fitted.at_motors)
        return np.zeros_like(fitted.residual) if Y is None else fitted.change(Y, FACTOR_STEP)

    def step(self, gears: SharedGears, fitted: _Fitted, motor: int, joint: int) -> tuple[float, float]:
        """Change of one factor that mends most to first order, and the gain that it promises."""
        change = self.change(gears, fitted, motor, joint)
        length = float((change * fitted.residual).sum()) / max(float((change**2).sum()), 1e-300)
        return length, fitted.gain_of(fitted.residual - length * change)

    def couplings(self) -> _Shared | None:
        """Factors of motors with other joints, that which mends most first, while each is decisive.

        Joints before the motor's come first, others need to be decisively better: a motor sits before its joint, so
        that belts and shafts to it pass the joints between.
        """
        n = self.analysis.robot.n
        gears, fitted = SharedGears(np.eye(n), (), self.counted, self.driven), self.declared
        while fitted is not None:
            free = [(i, j) for i, j in product(range(n), range(n)) if i != j and gears.M[i, j] == 0]
            steps = {pair: self.step(gears, fitted, *pair) for pair in free}
            largest = max((gain for _, gain in steps.values()), default=0.0)
            promising = (fitted.misfit > POOR).any() or largest > 0.5 * np.log(DECISIVE)
            if not promising:
                break
            before, after = (
                self.best_of(gears, {pair: steps[pair] for pair in free if (pair[1] < pair[0]) is lower})
                for lower in (True, False)
            )
            better = after if self.gain(after[1]) > self.gain(before[1]) + np.log(DECISIVE) else before
            if better[1] is None or self.gain(better[1]) - self.gain(fitted) <= np.log(DECISIVE):
                break
            gears, fitted = self.jointly(*better)
        if not gears.motors or fitted is None:
            return None
        # Whole turns, where the log does not tell them from the estimate.
        near = [pair for pair in gears.couplings if abs(abs(gears.M[pair]) - 1.0) < SAME_FACTOR]
        whole = gears
        for pair in near:
            whole = whole.with_factor(*pair, float(np.sign(gears.M[pair])))
        whole, again = self.polished(whole, self.fit(whole), near)
        if self.gain(again) > self.gain(fitted) - np.log(DECISIVE):
            gears, fitted = whole, again
        return self.reading(gears, fitted)

    def jointly(self, gears: SharedGears, fitted: _Fitted | None) -> tuple[SharedGears, _Fitted | None]:
        """Gears with all factors of joints before the motors that are decisive together.

        The motors of a wrist count several joints at once, so that one more factor alone may spoil what another mended.
        """
        n = self.analysis.robot.n
        pairs = sorted({*gears.couplings, *((i, j) for i in range(n) for j in range(i))})
        whole, best = gears, fitted
        for _ in range(POLISHED):
            if best is None:
                return gears, fitted
            steps, _ = self.joint_step(whole, best, pairs, pairs)
            moved = whole.moved(dict(zip(pairs, steps, strict=True)))
            again = self.fit(moved)
            if self.gain(again) <= self.gain(best):
                break
            whole, best = moved, again
        if best is None or fitted is None:
            return gears, fitted
        kept = list(pairs)
        while len(kept) > 1:
            # The least needed factor goes while the others, to first order, do nearly as well without it.
            losses = {
                pair: self.joint_step(whole, best, pairs, [other for other in kept if other != pair])[1]
                for pair in kept
            }
            least = max(losses, key=lambda pair: losses[pair])
            if losses[least] < -np.log(DECISIVE):
                break
            kept.remove(least)
        steps, _ = self.joint_step(whole, best, pairs, kept)
        fewer = whole.moved(dict(zip(pairs, steps, strict=True)))
        again = self.fit(fewer)
        fewer, again = self.polished(fewer, again)
        more = len(fewer.couplings) - len(gears.couplings)
        decisive = self.gain(again) > self.gain(fitted) + max(more, 0) * np.log(DECISIVE)
        return (fewer, again) if decisive else (gears, fitted)

    def joint_step(
        self,
        gears: SharedGears,
        fitted: _Fitted,
        pairs: Sequence[tuple[int, int]],
        kept: Sequence[tuple[int, int]],
    ) -> tuple[Float, float]:
        """First-order changes (p,) of all factors, those that are not kept to zero, and the gain they promise."""
        changes = self.changes(gears, fitted, tuple(pairs))
        now = np.array([gears.M[pair] for pair in pairs])
        free = np.array([pair in kept for pair in pairs])
        steps = np.where(free, 0.0, -now)
        left = fitted.residual.reshape(-1) - changes @ steps
        if free.any():
            steps[free] = np.linalg.lstsq(changes[:, free], left, rcond=1e-8)[0]
        return steps, fitted.gain_of(fitted.residual - (changes @ steps).reshape(fitted.residual.shape))

    def changes(self, gears: SharedGears, fitted: _Fitted, pairs: tuple[tuple[int, int], ...]) -> Float:
        """Changes (n N, p) of the weighted torque with each factor, less what the model takes up."""
        key = (gears.M.tobytes(), pairs)
        if self.cache.get("key") != key:
            self.cache["key"], self.cache["changes"] = (
                key,
                np.column_stack([self.change(gears, fitted, *pair).reshape(-1) for pair in pairs]),
            )
        return np.asarray(self.cache["changes"])

    def best_of(
        self, gears: SharedGears, steps: Mapping[tuple[int, int], tuple[float, float]]
    ) -> tuple[SharedGears, _Fitted | None]:
        """Gears with one more factor: the best of those that promise most, improved."""
        likely = sorted(steps, key=lambda pair: -steps[pair][1])[:TRIED]
        tried = [
            gears.with_factor(*pair, factor)
            for pair in likely
            for factor in (steps[pair][0], *GEARS)
            if factor != 0.0
        ]
        fits = [(one, self.fit(one)) for one in tried]
        return self.polished(*max(fits, key=lambda pair: self.gain(pair[1]), default=(gears, None)))

    def polished(
        self, gears: SharedGears, fitted: _Fitted | None, known: Sequence[tuple[int, int]] = ()
    ) -> tuple[SharedGears, _Fitted | None]:
        """Gears whose factors, but for known ones, are improved one after the other, while that mends."""
        for _ in range(POLISHED):
            for motor, joint in gears.couplings:
                if (motor, joint) in known:
                    continue
                if fitted is None:
                    return gears, None
                change, _ = self.step(gears, fitted, motor, joint)
                better = gears.with_factor(motor, joint, gears.M[motor, joint] + change)
                again = self.fit(better)
                if self.gain(again) > self.gain(fitted):
                    gears, fitted = better, again
        return gears, fitted

    def differential(self) -> _Shared | None:
        """The best differential of neighbours of which one misses much."""
        n = self.analysis.robot.n
        if self.declared is None:
            return None
        poor = self.declared.misfit > POOR

        def at(first: int, turned: float, sign: float, exponent: float) -> SharedGears:
            factor = turned * SHARED_GEARS_STEP**exponent
            return SharedGears.differential(n, first, first + 1, factor, sign, self.counted, self.driven)

        @cache
        def gain_at(first: int, turned: float, sign: float, exponent: float) -> float:
            return self.gain(self.fit_with(at(first, turned, sign, exponent), self.driven))

        coarse = [
            (first, turned, sign, exponent)
            for first in range(n - 1)
            if poor[first] or poor[first + 1]
            for turned, sign, exponent in product(GEARS, GEARS, STEPS)
        ]
        if not coarse:
            return None
        best = max(coarse, key=lambda place: gain_at(*place))
        for k in range(SHARED_GEARS_HALVED):
            first, turned, sign, exponent = best
            near = [(first, turned, sign, exponent + step) for step in (0.0, -(0.5**k), 0.5**k)]
            best = max(near, key=lambda place: gain_at(*place))
        return self.reading(at(*best), self.fit(at(*best)))


def _gain(before: Float, after: Float) -> float:
    return float(np.nansum(np.log(before / after)))


def _mends(tried: Interpretation, before: Float, after: Float) -> bool:
    # Where the model lacks most of the torque some reading is always a little less bad than another.
    changed = list(tried.joints)
    worst = int(np.nanargmax(before - after))
    return bool(np.nanmax(after[changed]) <= FITS and after[worst] <= MENDS * before[worst])


def _add_large(analysis: ResidualAnalysis, missed: Float, diagnostics: Diagnostics) -> None:
    large = [j for j in np.argsort(-missed) if missed[j] > LARGE]
    if not large:
        return
    names = ", ".join(f"{100 * missed[j]:.3g} % of '{analysis.robot.joint_names[j]}'" for j in large)
    model = ", ".join(term.name for term in analysis.plain_model[0])
    diagnostics.warn(
        "large-misfit",
        f"{model}: misses {names}. No exchange of two joints, no sign and no missing gravity mends it: either the "
        "model lacks what makes up this torque, friction for one, or it is that of motors that drive several joints "
        "together (a differential, bars, belts), or more than one channel is wrong",
    )


def thinned(analysis: ResidualAnalysis) -> Samples:
    """Some hundred samples whose gate shuts each joint near its reversals.

    Measured torque is filtered and a step of friction in the model is not, so that the two differ there.
    """
    step = max(1, len(analysis.index) // SAMPLES)
    full = analysis.motion
    motion = Samples.from_motion(
        full.q[::step], full.dq[::step], full.ddq[::step], full.tau[::step], full.rate
    )
    return replace(motion, gate=~analysis.reverses[::step])


def misfits(analysis: ResidualAnalysis, robot: RobotModel, samples: Samples) -> Float | None:
    """Mean square error over variance of a least-squares fit by joint, (n,), at least 1e-12; nan with few samples.

    Returns None if a term of the model reads more than motion.
    """
    return misfit_of(analysis, Reading(robot, samples))


def misfit_of(analysis: ResidualAnalysis, reading: Reading) -> Float | None:
    """That of a reading."""
    Y, complete = reading.columns(*analysis.plain_model)
    return _Fitted.of(analysis, reading.robot, reading.samples, Y).misfit if complete else None


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A weighted least-squares fit of the torque.

    Attributes
    ----------
    columns : ndarray, shape (n, N, w)
    weight : ndarray, shape (n, N)
    solver : _Solver
    theta : ndarray, shape (w,)
    residual : ndarray, shape (n, N)
        Weighted.
    count : ndarray, shape (n,)
        Samples of each joint; nan of joints with few.
    at_motors : bool
        Whether friction is that of the motors.

    """

    columns: Float
    weight: Float
    solver: _Solver
    theta: Float
    residual: Float
    count: Float
    at_motors: bool = False

    @staticmethod
    def of(
        analysis: ResidualAnalysis, robot: RobotModel, samples: Samples, Y: Float, at_motors: bool = False
    ) -> _Fitted:
        """The fit of columns (n, N, w)."""
        y = samples.tau - analysis.plain_model[0].known_torque(robot, samples)
        gate = np.ones(y.shape) if samples.gate is None else samples.gate.astype(np.float64)
        count = gate.sum(axis=0)
        joints = np.isin(np.arange(len(Y)), analysis.joints) & (count >= LEAST_SAMPLES)
        weight = (gate / np.maximum(y.std(axis=0), 1e-12)).T
        target = y.T * weight
        solver = _Solver.of(Y, weight)
        theta = solver.solved(target)
        return _Fitted(
            Y,
            weight,
            solver,
            theta,
            target - weight * (Y @ theta),
            np.where(joints, count, np.nan),
            at_motors,
        )

    @cached_property
    def misfit(self) -> Float:
        """Mean square error over variance by joint, (n,)."""
        return np.asarray(np.maximum((self.residual**2).sum(axis=1) / self.count, 1e-12))

    def change(self, nearby: Float, size: float) -> Float:
        """Change (n, N) of the weighted torque along a direction, less what the model takes up.

        nearby: columns (n, N, w) a step of this size along it.
        """
        change = self.weight * ((nearby - self.columns) @ self.theta) / size
        return np.asarray(change - self.weight * (self.columns @ self.solver.solved(change)))

    def gain_of(self, residual: Float) -> float:
        """Sum of the logarithms of mean square errors over those of another residual (n, N)."""
        return _gain(self.misfit, np.maximum((residual**2).sum(axis=1) / self.count, 1e-12))


@dataclass(frozen=True, eq=False)
class _Solver:
    """Weighted least squares by normal equations with a trace of ridge and one refinement.

    They are as good as orthogonal ones at this depth, and quick.
    """

    rows: Float
    size: Float
    gram: Float

    @staticmethod
    def of(Y: Float, weight: Float) -> _Solver:
        rows = (Y * weight[:, :, None]).reshape(-1, Y.shape[2])
        size = np.linalg.norm(rows, axis=0)
        rows = rows / np.where(size > 0, size, np.inf)
        return _Solver(rows, size, cho_factor(rows.T @ rows + RIDGE * np.eye(rows.shape[1])))

    def solved(self, target: Float) -> Float:
        """Parameters (w,) of a weighted target (n, N)."""
        y = target.reshape(-1)
        theta = np.asarray(cho_solve(self.gram, self.rows.T @ y), dtype=np.float64)
        theta += cho_solve(self.gram, self.rows.T @ (y - self.rows @ theta))
        return np.asarray(theta / np.where(self.size > 0, self.size, np.inf))


def without_gravity(robot: RobotModel, samples: Samples, joints: tuple[int, ...]) -> Interpretation:
    """Torque of some joints from which gravity has been taken off."""
    names = [f"'{robot.joint_names[joint]}'" for joint in joints]
    where = "" if len(joints) == robot.n else f" on {listed(names)}"
    return Interpretation(
        "gravity-compensated",
        f"torque without gravity{where}",
        "log the measured torque, not the one that is left after gravity compensation",
        joints,
        robot,
        samples,
    )


def mounted(analysis: ResidualAnalysis, samples: Samples, declared: Float) -> Iterator[Interpretation]:
    """A robot that stands another way, where that makes misfits less than `declared` (n,)."""

    def gain_of(gravity: Float) -> float:
        after = misfits(analysis, replace(analysis.robot, gravity=gravity), samples)
        return -np.inf if after is None else _gain(declared, after)

    gravity = best_mounting(analysis.robot, gain_of)
    if gravity is None:
        return
    direction = [f"{g:.4g}" for g in gravity.round(6) + 0.0]  # no -0
    yield Interpretation(
        "tilted-base",
        "torque of a robot that is mounted another way, with gravity "
        f"{degrees_between(gravity, analysis.robot.gravity):.0f} degrees off the declared direction",
        f"declare how it stands, in the base frame: gravity = [{', '.join(direction)}] under [robot] in the "
        f"experiment file, or --gravity={','.join(direction)}",
        tuple(range(analysis.robot.n)),
        replace(analysis.robot, gravity=gravity),
        samples,
    )


def wirings(robot: RobotModel, samples: Samples) -> Iterator[Interpretation]:
    """Efforts, positions or both of two joints exchanged, efforts some columns off, and faults of single joints.

    The effort or position of a single joint may have the other sign, its effort may lack gravity.
    """
    names, every = robot.joint_names, tuple(range(robot.n))
    for places in range(1, robot.n if robot.n > 2 else 0):
        yield Interpretation(
            "joint-order",
            f"efforts that stand {places} columns too far to the right, the last ones first",
            "move their columns back under effort in [log]",
            every,
            robot,
            replace(samples, tau=np.roll(samples.tau, -places, axis=1)),
        )
    for a, b in combinations(range(robot.n), 2):
        order = list(range(robot.n))
        order[a], order[b] = b, a
        pair = f"'{names[a]}' and '{names[b]}'"
        yield Interpretation(
            "joint-order",
            f"efforts of {pair} that are exchanged",
            "exchange their columns under effort in [log]",
            (a, b),
            robot,
            replace(samples, tau=samples.tau[:, order]),
        )
        yield Interpretation(
            "joint-order",
            f"positions of {pair} that are exchanged",
            "exchange their columns under position and velocity in [log]",
            (a, b),
            robot,
            _exchanged(samples, order),
        )
        whole = _exchanged(samples, order)
        yield Interpretation(
            "joint-order",
            f"columns of {pair} that are exchanged",
            "exchange their columns under position, velocity and effort in [log]",
            (a, b),
            robot,
            replace(whole, tau=samples.tau[:, order]),
        )
    for j in every:
        yield from sign_readings(robot, samples, j)
        if robot.n > 1:
            yield without_gravity(robot, samples, (j,))


def sign_readings(robot: RobotModel, samples: Samples, joint: int) -> Iterator[Interpretation]:
    """One joint's effort, and its position, of the other sign."""
    name, sign = robot.joint_names[joint], np.where(np.arange(robot.n) == joint, -1.0, 1.0)
    yield Interpretation(
        "torque-sign",
        "effort of the other sign",
        f"set effort.sign = {{ {name} = -1 }} under [log]",
        (joint,),
        robot,
        replace(samples, tau=samples.tau * sign),
    )
    yield Interpretation(
        "position-sign",
        "position of the other sign",
        f"set position.sign = {{ {name} = -1 }} under [log]",
        (joint,),
        robot,
        _turned(samples, sign),
    )


def _exchanged(samples: Samples, order: list[int]) -> Samples:
    gate = None if samples.gate is None else samples.gate[:, order]
    moved = [values[:, order] for values in (samples.q, samples.dq, samples.ddq)]
    return replace(samples, q=moved[0], dq=moved[1], ddq=moved[2], gate=gate)


def _turned(samples: Samples, sign: Float) -> Samples:
    return replace(samples, q=samples.q * sign, dq=samples.dq * sign, ddq=samples.ddq * sign)
