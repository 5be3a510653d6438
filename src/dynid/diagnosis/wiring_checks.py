"""Alternative readings of a log: swapped joints, flipped signs, torque without gravity, another mounting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from dynid.log.prior_check import best_mounting, degrees_between
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Kind, Scale, Side
from dynid.terms.term import JointTerm, Terms

# Alternative readings with coupled transmissions: motors that share gears, and angles that include other joint angles.

# Usual coupling factors of a motor with another joint. The search starts from these and from the first-order estimate.
GEARS = (1.0, -1.0)
# Ratio of the second to the first joint's factor in a differential. The search tries the powers STEPS of the first
# constant (1/2, 1 and 2), then refines the best exponent with steps that start at 1 and are halved (to 1 %).
SHARED_GEARS_STEP, STEPS, SHARED_GEARS_HALVED = 2.0**0.5, (-2.0, 0.0, 2.0), 7
# Step of a factor for derivatives; number of motor-joint pairs that are refitted after the first-order screening;
# rounds of coordinate steps.
FACTOR_STEP, TRIED, POLISHED = 1e-4, 2, 3
# Factors that differ by less than this count as equal.
SAME_FACTOR = 0.02


@dataclass(frozen=True, eq=False)
class SharedGears:
    """Coupled transmission: motor angles theta = M q, relative to the declared gears, and motor torque u = M^-T tau.

    Attributes
    ----------
    M : ndarray, shape (n, n)
        Coupling matrix; rows of uncoupled motors are rows of the identity.
    motors : tuple of int
        Motors that share gears.
    counted : bool
        Whether the log contains motor angles theta instead of joint angles q.
    driven : bool
        Whether the log contains motor torque u instead of joint torque tau.

    """

    M: Float
    motors: tuple[int, ...]
    counted: bool = False
    driven: bool = True

    @staticmethod
    def differential(
        n: int, first: int, second: int, factor: float, sign: float, counted: bool, driven: bool
    ) -> SharedGears:
        """Differential of two motors and two joints: theta = (q_1 + f q_2, s (q_1 - f q_2))."""
        M, pair = np.eye(n), [first, second]
        M[np.ix_(pair, pair)] = [[1.0, factor], [sign, -sign * factor]]
        return SharedGears(M, (first, second), counted, driven)

    def with_factor(self, motor: int, joint: int, factor: float) -> SharedGears:
        """Copy with another coupling factor between a motor and a joint."""
        M = np.array(self.M)
        M[motor, joint] = factor
        return replace(self, M=M, motors=tuple(sorted({*self.motors, motor})))

    def moved(self, changes: Mapping[tuple[int, int], float]) -> SharedGears:
        """Copy with the changes added to the coupling factors; factors close to zero become zero."""
        gears = self
        for (motor, joint), change in changes.items():
            gears = gears.with_factor(motor, joint, float(self.M[motor, joint] + change))
        turning = (np.abs(gears.M) > RIDGE) & ~np.eye(len(gears.M), dtype=np.bool_)
        M = np.where(turning | np.eye(len(gears.M), dtype=np.bool_), gears.M, 0.0)
        return replace(gears, M=M, motors=tuple(np.flatnonzero(turning.any(axis=1)).tolist()))

    @property
    def whole(self) -> list[tuple[int, int]]:
        """Couplings with factor 1 or -1, and both couplings of every differential."""
        both = [pair for pair in self.couplings if self.M[pair[::-1]] != 0]
        return [pair for pair in self.couplings if pair in both or self.M[pair] in GEARS]

    @property
    def couplings(self) -> list[tuple[int, int]]:
        """Pairs (motor, other joint) whose coupling factor is not zero."""
        return [(int(i), int(j)) for i, j in np.argwhere(self.M != 0) if i != j]

    def regressor(
        self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool, at_motors: bool
    ) -> Float | None:
        """Regressor of the logged torque for this transmission.

        Parameters
        ----------
        robot : RobotModel
            Robot with the declared gears.
        terms : Terms
            Terms of the model.
        samples : Samples
            N samples as logged.
        wanted : ndarray of bool, shape (p,)
            Parameters with a column.
        at_motors : bool
            Whether friction acts at the motors instead of at the joints. Rotors always turn with the motors.

        Returns
        -------
        ndarray, shape (n, N, w), or None
            None if a term needs other inputs than motion.

        """
        N, inverse = robot.drive.transmission, np.linalg.inv(self.M)
        relative = N / robot.drive.own_ratio[:, None]  # motor motion divided by the motor's own gear ratio
        real = robot
        if robot.drive.coupled:  # motor-side terms use the transmission
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
            term_columns = slice(first, first := first + len(term.columns(robot)))
            of_motor = isinstance(term, JointTerm) and term.traits.side is Side.MOTOR
            if of_motor and (at_motors or term.traits.kind is Kind.ROTORS) and wanted[term_columns].any():
                values, _ = regressor(robot, Terms((term,)), motors, wanted[term_columns])
                columns[:, :, place[term_columns][wanted[term_columns]]] = np.tensordot(relative.T, values, 1)
        return np.asarray(columns)

    def words(self, robot: RobotModel) -> tuple[str, str]:
        """Describe the couplings, and say how to declare them."""
        names = robot.joint_names
        motors = " and ".join(f"'{names[motor]}'" for motor in self.motors)
        N = robot.drive.transmission @ self.M
        # Factors that nearly cancel leave small values that no log can distinguish from zero.
        slides = np.array(robot.prismatic)
        alike = slides[:, None] == slides  # rad/m and rad/rad cannot be compared
        N = np.where(alike & (np.abs(N) < SAME_FACTOR * np.abs(robot.drive.own_ratio[:, None])), 0.0, N)
        rows = ", ".join(f"[{', '.join(f'{value:.4g}' for value in row)}]" for row in N)
        matrix = f"transmission = [{rows}] under [drive]"
        differential = (
            len(self.motors) == 2
            and self.M[self.motors[1], self.motors[0]] != 0 != self.M[self.motors[0], self.motors[1]]
        )
        turns = ", ".join(
            f"'{names[motor]}' with {self.M[motor, joint]:.3g} times '{names[joint]}'"
            for motor, joint in self.couplings
        )
        if self.counted and self.driven:
            description = (
                f"the log contains angles and torque of the two motors of a differential that moves {motors}"
                if differential
                else f"the log contains angles and torque of motors that are coupled to other joints: {turns}"
            )
            return (
                description,
                f'declare {matrix}, with position.side = "motor" and effort.side = "motor" under [log]',
            )
        if self.counted:
            if not differential and len(self.couplings) == 1:
                ((motor, joint),) = self.couplings
                return self._words_of_angles(names[motor], names[joint], float(self.M[motor, joint]))
            return (
                f"the log contains angles of motors that are coupled to other joints ({turns}) and torque of joints",
                f'correct the log, or declare {matrix}, with position.side = "motor" and effort.side = "link" under '
                "[log]",
            )
        if differential:
            return (
                f"the log contains torque of the two motors of a differential that moves {motors}",
                f"declare the differential ({matrix}; multiply each row by the gear ratio if the torque is that of "
                'the motor shaft; torque_side = "motor") in a TOML file of the robot',
            )
        declared = " ".join(
            f'[[drive.coupling]] motor = "{names[motor]}", joint = "{names[joint]}", factor = '
            f"{self.M[motor, joint]:.3g}"
            for motor, joint in self.couplings
        )
        return (
            f"the log contains torque of motors that are coupled to other joints: {turns}",
            f'declare the couplings ({declared}) and torque_side = "motor" under [drive]',
        )

    def _words_of_angles(self, motor: str, joint: str, factor: float) -> tuple[str, str]:
        other = "minus" if factor > 0 else "plus"
        times = "" if abs(abs(factor) - 1) < SAME_FACTOR else f"{abs(factor):.3g} times "
        return (
            f"the logged angle of '{motor}' includes the angle of '{joint}', like an angle to the horizontal: the "
            f"joint angle is the logged angle {other} {times}the angle of '{joint}'",
            f'correct the log, or declare the coupling ([[drive.coupling]] motor = "{motor}", joint = "{joint}", '
            f'factor = {factor:.3g}) with position.side = "motor" and effort.side = "link" under [log]',
        )


def _mapped(samples: Samples, matrix: npt.NDArray[np.floating[Any]]) -> Samples:
    motion = {name: getattr(samples, name) @ matrix.T for name in ("q", "dq", "ddq")}
    return replace(samples, **motion)


# Approximate number of samples for the comparison of readings.
SAMPLES = 250
# Other wirings are tried if the mean square error of a joint exceeds this share of its torque variance.
POOR = 0.01
# Relative ridge of the normal equations.
RIDGE = 1e-10
# A reading is decisively better if it divides the product of the joints' mean square errors by at least this factor.
DECISIVE = 6.0
# Under a correct reading, the rms error of each changed joint is at most FITS of its torque; the rms error of the joint
# that improves most is at most MENDS of its error before.
FITS, MENDS = 0.25, 0.5
# Above this ratio of rms error to rms torque, the model does not describe the joint.
LARGE = 0.5
WIRING = ("joint-order", "torque-sign", "position-sign")
# Least number of samples away from reversals for a fit of a joint.
LEAST_SAMPLES = 30


@dataclass(frozen=True, eq=False)
class Interpretation:
    """An alternative reading of the log.

    Attributes
    ----------
    identifier : Claim
        Code of the claim.
    what, do : str
        What the log contains under this reading, and how to declare it.
    joints : tuple of int
        Joints with changed channels.
    robot : RobotModel
    samples : Samples

    """

    identifier: Claim
    what: str
    do: str
    joints: tuple[int, ...]
    robot: RobotModel
    samples: Samples

    @property
    def reading(self) -> Reading:
        """Robot, samples and joints without gravity under this interpretation."""
        weightless = self.joints if self.identifier == "gravity-compensated" else ()
        return Reading(self.robot, self.samples, weightless)


def check_wiring(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> bool:
    """Compare alternative readings of the log, and report a reading that fits well and decisively better.

    Each reading is fitted by least squares to about 250 samples, without the terms that could absorb a wrong reading.
    The score is the sum over joints of the logarithm of the mean square error. The function also warns of an undeclared
    coupling that gains more than any other reading, and of joints with a large error under every reading. Its claims
    are joint-order, torque-sign, position-sign, gravity-compensated and tilted-base.

    Parameters
    ----------
    analysis : ResidualAnalysis
        Residuals of the finished fit.
    diagnostics : Diagnostics
        Receives claims and warnings.

    Returns
    -------
    bool
        Whether a claim was made that the user has not accepted. Other checks of the residuals need correct columns.

    """
    if not analysis.enough or len(analysis.joints) < analysis.robot.n:
        # Unlogged motion causes torque that can make any wrong reading look better.
        return False
    if any(term.traits.scale is Scale.FREES for term in analysis.terms):
        # Free torque gains can fit every reading of the torque.
        return False
    samples = thinned(analysis)
    declared = misfits(analysis, analysis.robot, samples)
    if declared is None:
        return False
    every = tuple(range(analysis.robot.n))
    readings = [without_gravity(analysis.robot, samples, every)]
    if (declared > POOR).any():
        readings += [*wirings(analysis.robot, samples), *mounted(analysis, samples, declared)]
    better = _better(analysis, samples, declared, readings)
    coupled = _coupled(analysis, samples)
    if coupled is not None and (better is None or coupled.gain > _gain(better[1] ** 2, better[2] ** 2)):
        diagnostics.warn("undeclared-coupling", coupled.text(analysis.robot))
        return False
    if better is not None and _predicts(analysis, better[0]):
        best, before, after = better
        worst = int(np.nanargmax(before - after))
        diagnostics.claim(
            best.identifier,
            found=f"{best.what}: this reading lowers the torque error of "
            f"'{analysis.robot.joint_names[worst]}' from {100 * before[worst]:.3g} % to {100 * after[worst]:.3g} %",
            expected="a log that fits best as declared",
            do=best.do,
            place=Place(
                joint=analysis.robot.joint_names[best.joints[0]] if best.identifier in WIRING else None
            ),
        )
        return best.identifier not in diagnostics.accepting
    as_modelled = misfit_of(analysis, Reading(analysis.robot, samples), friction=False)
    if as_modelled is not None:
        _add_large(analysis, np.sqrt(as_modelled), diagnostics)
    return False


def _better(
    analysis: ResidualAnalysis, samples: Samples, declared: Float, readings: Sequence[Interpretation]
) -> tuple[Interpretation, Float, Float] | None:
    """Select the reading with the largest gain, if it fits well and decisively better than the declared reading.

    Parameters
    ----------
    analysis : ResidualAnalysis
        Residuals of the finished fit.
    samples : Samples
        Samples as declared.
    declared : ndarray, shape (n,)
        Mean square error over torque variance as declared.
    readings : sequence of Interpretation
        Candidates.

    Returns
    -------
    tuple or None
        The reading, and the rms error over rms torque (n,) as declared and under the reading.

    """
    values = [misfit_of(analysis, reading.reading) for reading in readings]
    gains = [-np.inf if reading is None else _gain(declared, reading) for reading in values]
    for k in np.argsort(-np.array(gains), kind="stable").tolist():
        reading, value = readings[k], values[k]
        if value is None or gains[k] <= np.log(DECISIVE):
            return None
        before = declared
        if samples.gate is not None and reading.identifier == "joint-order":
            # Each joint is scored only while it moves, so exchanged columns would be scored at other times, and torque
            # at rest is easy to fit. Score both readings while all exchanged joints move; if they hardly ever do, while
            # any of them moves.
            gate, changed = np.array(samples.gate), list(reading.joints)
            moves = gate[:, changed]
            together = moves.all(axis=1, keepdims=True)
            some = moves.any(axis=1, keepdims=True)
            gate[:, changed] = together if together.sum() >= LEAST_SAMPLES else some
            errors = [
                misfits(analysis, robot, replace(motion, gate=gate))
                for robot, motion in ((analysis.robot, samples), (reading.robot, reading.samples))
            ]
            if errors[0] is None or errors[1] is None:
                continue
            before, value = errors[0], errors[1]
        before_after = np.sqrt(before), np.sqrt(value)
        if _gain(before, value) > np.log(DECISIVE) and _mends(reading, *before_after):
            return reading, *before_after
        if before is declared:
            return None
    return None


@dataclass(frozen=True, eq=False)
class _Shared:
    """A reading with coupled transmission.

    Attributes
    ----------
    gears : SharedGears
    gain : float
        See `_gain`.
    before, after : ndarray, shape (n,)
        rms error over rms torque as declared and with these gears.

    """

    gears: SharedGears
    gain: float
    before: Float
    after: Float

    def text(self, robot: RobotModel) -> str:
        """Message with the coupling, its effect on the error and the declaration."""
        worst, names = int(np.nanargmax(self.before - self.after)), robot.joint_names
        description, declare = self.gears.words(robot)
        if not self.gears.counted and np.isfinite(robot.drive.drive_gain).any():
            # drive_gain is torque at the joint and does not account for couplings.
            declare += (
                "; for a log of currents, use torque_constant (N m per ampere at the motor), not drive_gain"
            )
        return (
            f"{description}: this reading lowers the torque error of '{names[worst]}' from "
            f"{100 * self.before[worst]:.3g} % to {100 * self.after[worst]:.3g} %; "
            f"{declare}, in a TOML file of the robot that names the present file "
            "(urdf = its name)" + ("" if self.gears.counted else ", or log the torque of the joints")
        )


def _predicts(analysis: ResidualAnalysis, reading: Interpretation) -> bool:
    """Whether a reading predicts held-out blocks of its joints significantly better than the declared one.

    A better fit alone can be overfitting. If joints move only once or twice, friction can look like a flipped sign or
    the torque of another joint, so both are fitted with friction.
    """
    samples = analysis.gated
    readings = (
        without_gravity(analysis.robot, samples, tuple(range(analysis.robot.n))),
        *wirings(analysis.robot, samples),
        replace(reading, samples=samples),
    )
    same = next(
        candidate
        for candidate in readings
        if (candidate.identifier, candidate.what, candidate.joints) == _key(reading)
    )
    plain = Reading(analysis.robot, samples)
    declared, other = (
        HeldOut.of(analysis, tried, plain_friction(tried.samples)) for tried in (plain, same.reading)
    )
    if declared is None or other is None:
        return False
    before, after = (fit.joined(fit.error(), analysis.robot.n) for fit in (declared, other))
    # Large errors of other joints, which the reading leaves as they are, would hide its gain.
    changed = list(reading.joints)
    gains = chance_of_gain(before[changed].sum(axis=0), after[changed].sum(axis=0)) < CHANCE
    return gains and bool(after.sum() < before.sum())


def plain_friction(samples: Samples) -> Float:
    """Columns (n, N, 2 n) of viscous and Coulomb friction: velocity and its sign, per joint."""
    N, n = samples.dq.shape
    columns = np.zeros((n, N, 2 * n))
    for j in range(n):
        columns[j, :, 2 * j], columns[j, :, 2 * j + 1] = samples.dq[:, j], np.sign(samples.dq[:, j])
    return columns


def _key(reading: Interpretation) -> tuple[str, str, tuple[int, ...]]:
    return reading.identifier, reading.what, reading.joints


# Motor-side channels of the log, as (angles, torque): torque only, angles only, or both.
_FORMS = ((False, True), (True, False), (True, True))


def _coupled(analysis: ResidualAnalysis, samples: Samples) -> _Shared | None:
    """Coupled transmission with the largest gain, if it is decisive."""
    if samples.theta is not None:
        return None
    searches = [_GearSearch(analysis, samples, counted, driven) for counted, driven in _FORMS]
    tried = [reading for search in searches for reading in (search.couplings(), search.differential())]
    best = max(
        (candidate for candidate in tried if candidate is not None),
        key=lambda reading: reading.gain,
        default=None,
    )
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
    """Search for a coupled transmission, given which channels of the log are motor-side."""

    analysis: ResidualAnalysis
    samples: Samples
    counted: bool
    driven: bool
    cache: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def declared(self) -> _Fitted | None:
        """Fit with the declared gears."""
        n = self.analysis.robot.n
        return self.fit(SharedGears(np.eye(n), (), self.counted, self.driven))

    def fit(self, gears: SharedGears) -> _Fitted | None:
        """Least squares with friction at the motors or the joints, whichever fits better; None for singular gears."""
        if not np.linalg.cond(gears.M) < 1.0 / RIDGE**0.5:
            return None
        fits = [self.fit_with(gears, at_motors) for at_motors in ((True, False) if self.driven else (False,))]
        return max(
            (fitted for fitted in fits if fitted is not None), key=self.gain_over_variance, default=None
        )

    def fit_with(self, gears: SharedGears, at_motors: bool) -> _Fitted | None:
        """Least squares with friction at the motors or at the joints; None if terms need other inputs than motion."""
        terms, wanted = self.analysis.plain_model
        Y = gears.regressor(self.analysis.robot, terms, self.samples, wanted, at_motors)
        return (
            None if Y is None else _Fitted.of(self.analysis, self.analysis.robot, self.samples, Y, at_motors)
        )

    @staticmethod
    def gain_over_variance(fitted: _Fitted) -> float:
        """Sum over joints of log(torque variance / mean square error)."""
        return _gain(np.ones_like(fitted.misfit), fitted.misfit)

    def gain(self, fitted: _Fitted | None) -> float:
        """Sum over joints of log(mean square error as declared / mean square error of the fit)."""
        return (
            -np.inf if fitted is None or self.declared is None else _gain(self.declared.misfit, fitted.misfit)
        )

    def reading(self, gears: SharedGears, fitted: _Fitted | None) -> _Shared | None:
        """The reading with these gears, or None if it is not decisively better than the declared gears."""
        if fitted is None or self.declared is None or self.gain(fitted) <= np.log(DECISIVE):
            return None
        return _Shared(gears, self.gain(fitted), np.sqrt(self.declared.misfit), np.sqrt(fitted.misfit))

    def change(self, gears: SharedGears, fitted: _Fitted, motor: int, joint: int) -> Float:
        """Derivative (n, N) of the weighted torque with respect to one factor, orthogonal to the model's columns."""
        terms, wanted = self.analysis.plain_model
        nearby = gears.with_factor(motor, joint, gears.M[motor, joint] + FACTOR_STEP)
        Y = nearby.regressor(self.analysis.robot, terms, self.samples, wanted, fitted.at_motors)
        return np.zeros_like(fitted.residual) if Y is None else fitted.change(Y, FACTOR_STEP)

    def step(self, gears: SharedGears, fitted: _Fitted, motor: int, joint: int) -> tuple[float, float]:
        """Best first-order change of one factor, and the predicted gain."""
        change = self.change(gears, fitted, motor, joint)
        length = float((change * fitted.residual).sum()) / max(float((change**2).sum()), 1e-300)
        return length, fitted.gain_of(fitted.residual - length * change)

    def couplings(self) -> _Shared | None:
        """Add coupling factors greedily, largest gain first, while each is decisive.

        Joints closer to the base than the motor's joint have priority, and other joints must be decisively better: a
        motor sits on the base side of its joint, so belts and shafts to the joint pass the joints between.
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
        # Round factors to 1 or -1 if the log cannot distinguish them from the estimate.
        near = [pair for pair in gears.couplings if abs(abs(gears.M[pair]) - 1.0) < SAME_FACTOR]
        whole = gears
        for pair in near:
            whole = whole.with_factor(*pair, float(np.sign(gears.M[pair])))
        whole, again = self.polished(whole, self.fit(whole), near)
        if self.gain(again) > self.gain(fitted) - np.log(DECISIVE):
            gears, fitted = whole, again
        return self.reading(gears, fitted)

    def jointly(self, gears: SharedGears, fitted: _Fitted | None) -> tuple[SharedGears, _Fitted | None]:
        """Fit all factors of joints on the base side of the motors together, then drop the factors that are not needed.

        Wrist motors can be coupled to several joints at once, so adding a single factor can undo the gain of another.
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
            # Drop the least important factor while the others fit nearly as well without it, to first order.
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
        """First-order changes (p,) of all factors, and the predicted gain; factors that are not kept go to zero."""
        changes = self.changes(gears, fitted, tuple(pairs))
        now = np.array([gears.M[pair] for pair in pairs])
        free = np.array([pair in kept for pair in pairs])
        steps = np.where(free, 0.0, -now)
        left = fitted.residual.reshape(-1) - changes @ steps
        if free.any():
            steps[free] = np.linalg.lstsq(changes[:, free], left, rcond=1e-8)[0]
        return steps, fitted.gain_of(fitted.residual - (changes @ steps).reshape(fitted.residual.shape))

    def changes(self, gears: SharedGears, fitted: _Fitted, pairs: tuple[tuple[int, int], ...]) -> Float:
        """Derivatives (n N, p) of the weighted torque with respect to factors, orthogonal to the model's columns."""
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
        """Add one factor: refit the candidates with the largest predicted gain, and refine the best."""
        likely = sorted(steps, key=lambda pair: -steps[pair][1])[:TRIED]
        tried = [
            gears.with_factor(*pair, factor)
            for pair in likely
            for factor in (steps[pair][0], *GEARS)
            if factor != 0.0
        ]
        fits = [(candidate, self.fit(candidate)) for candidate in tried]
        return self.polished(*max(fits, key=lambda pair: self.gain(pair[1]), default=(gears, None)))

    def polished(
        self, gears: SharedGears, fitted: _Fitted | None, known: Sequence[tuple[int, int]] = ()
    ) -> tuple[SharedGears, _Fitted | None]:
        """Improve the factors, except the known ones, one after the other, as long as the gain increases."""
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
        """Best differential of two adjacent joints, at least one of which has a large error."""
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
    """Sum over joints of log(before / after), for mean square errors (n,)."""
    return float(np.nansum(np.log(before / after)))


def _mends(tried: Interpretation, before: Float, after: Float) -> bool:
    # If the model describes little of the torque, some wrong reading always fits slightly better than another.
    changed = list(tried.joints)
    most = int(np.nanargmax(before / after))
    return bool(np.nanmax(after[changed]) <= FITS and after[most] <= MENDS * before[most])


def _add_large(analysis: ResidualAnalysis, missed: Float, diagnostics: Diagnostics) -> None:
    large = [j for j in np.argsort(-missed) if missed[j] > LARGE]
    if not large:
        return
    names = ", ".join(f"{100 * missed[j]:.3g} % of '{analysis.robot.joint_names[j]}'" for j in large)
    model = ", ".join(term.name for term in analysis.plain_model[0])
    diagnostics.warn(
        "large-misfit",
        f"{model}: the torque error is {names}. Swapping joints, flipping signs or removing gravity does not fix it: "
        "either the model lacks a main part of the torque (for example friction), or the log contains torque of "
        "motors that drive several joints (a differential, bars, belts), or more than one channel is wrong",
    )


def thinned(analysis: ResidualAnalysis) -> Samples:
    """About 250 samples, with a gate that excludes each joint near its reversals.

    Near reversals the measured torque is filtered, but the step of friction in the model is not.
    """
    step = max(1, len(analysis.index) // SAMPLES)
    full = analysis.motion
    motion = Samples.from_motion(
        full.q[::step], full.dq[::step], full.ddq[::step], full.tau[::step], full.rate
    )
    return replace(motion, gate=~analysis.reverses[::step])


def misfits(analysis: ResidualAnalysis, robot: RobotModel, samples: Samples) -> Float | None:
    """Mean square error over torque variance per joint, (n,), of a least-squares fit of the plain model and friction.

    The values are at least 1e-12, and nan for joints with few samples. The result is None if a term of the model needs
    other inputs than motion.
    """
    return misfit_of(analysis, Reading(robot, samples))


def misfit_of(analysis: ResidualAnalysis, reading: Reading, friction: bool = True) -> Float | None:
    """Mean square error over torque variance per joint, (n,), of a reading; see `misfits`."""
    Y, complete = reading.columns(*analysis.plain_model)
    if not complete:
        return None
    if friction:
        # A model that was chosen under a wrong reading may lack the friction that the right one needs.
        Y = np.concatenate([Y, plain_friction(reading.samples)], axis=2)
    return _Fitted.of(analysis, reading.robot, reading.samples, Y).misfit


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
        Weighted residual.
    count : ndarray, shape (n,)
        Number of samples per joint; nan for joints with few samples.
    at_motors : bool
        Whether friction acts at the motors.

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
        """Fit the torque with columns (n, N, w)."""
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
        """Mean square error over torque variance per joint, (n,)."""
        return np.asarray(np.maximum((self.residual**2).sum(axis=1) / self.count, 1e-12))

    def change(self, nearby: Float, size: float) -> Float:
        """Derivative (n, N) of the weighted torque along a direction, orthogonal to the model's columns.

        Parameters
        ----------
        nearby : ndarray, shape (n, N, w)
            Columns after a step along the direction.
        size : float
            Length of the step.

        """
        change = self.weight * ((nearby - self.columns) @ self.theta) / size
        return np.asarray(change - self.weight * (self.columns @ self.solver.solved(change)))

    def gain_of(self, residual: Float) -> float:
        """Sum over joints of log(mean square error / mean square of another weighted residual (n, N))."""
        return _gain(self.misfit, np.maximum((residual**2).sum(axis=1) / self.count, 1e-12))


@dataclass(frozen=True, eq=False)
class _Solver:
    """Weighted least squares by normal equations with a small ridge and one step of iterative refinement.

    This is faster than an orthogonal factorization, and accurate enough for the comparison of readings.
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
        """Least-squares parameters (w,) for a weighted target (n, N)."""
        y = target.reshape(-1)
        theta = np.asarray(cho_solve(self.gram, self.rows.T @ y), dtype=np.float64)
        theta += cho_solve(self.gram, self.rows.T @ (y - self.rows @ theta))
        return np.asarray(theta / np.where(self.size > 0, self.size, np.inf))


def without_gravity(robot: RobotModel, samples: Samples, joints: tuple[int, ...]) -> Interpretation:
    """Reading in which the torque of some joints is gravity-compensated."""
    names = [f"'{robot.joint_names[joint]}'" for joint in joints]
    where = "" if len(joints) == robot.n else f" on {listed(names)}"
    return Interpretation(
        "gravity-compensated",
        f"torque without gravity{where}",
        "log the measured torque, not the torque after gravity compensation",
        joints,
        robot,
        samples,
    )


def mounted(analysis: ResidualAnalysis, samples: Samples, declared: Float) -> Iterator[Interpretation]:
    """Yield the reading with another mounting of the base, if it fits better than `declared` (n,)."""

    def gain_of(gravity: Float) -> float:
        after = misfits(analysis, replace(analysis.robot, gravity=gravity), samples)
        return -np.inf if after is None else _gain(declared, after)

    gravity = best_mounting(analysis.robot, gain_of)
    if gravity is None:
        return
    direction = [f"{g:.4g}" for g in gravity.round(6) + 0.0]  # no -0
    yield Interpretation(
        "tilted-base",
        "torque of a robot with another mounting, with gravity "
        f"{degrees_between(gravity, analysis.robot.gravity):.0f} degrees off the declared direction",
        f"declare gravity in the base frame: gravity = [{', '.join(direction)}] under [robot] in the "
        f"experiment file, or --gravity={','.join(direction)}",
        tuple(range(analysis.robot.n)),
        replace(analysis.robot, gravity=gravity),
        samples,
    )


def wirings(robot: RobotModel, samples: Samples) -> Iterator[Interpretation]:
    """Yield readings with wiring errors.

    The readings are: efforts shifted by some columns; efforts, positions or both of two joints swapped; effort or
    position of a single joint with the opposite sign; effort of a single joint without gravity.
    """
    names, every = robot.joint_names, tuple(range(robot.n))
    for places in range(1, robot.n if robot.n > 2 else 0):
        yield Interpretation(
            "joint-order",
            f"efforts shifted {places} columns to the right, with the last columns first",
            "move the columns back under effort in [log]",
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
            f"swapped efforts of {pair}",
            "swap their columns under effort in [log]",
            (a, b),
            robot,
            replace(samples, tau=samples.tau[:, order]),
        )
        yield Interpretation(
            "joint-order",
            f"swapped positions of {pair}",
            "swap their columns under position and velocity in [log]",
            (a, b),
            robot,
            _exchanged(samples, order),
        )
        whole = _exchanged(samples, order)
        yield Interpretation(
            "joint-order",
            f"swapped columns of {pair}",
            "swap their columns under position, velocity and effort in [log]",
            (a, b),
            robot,
            replace(whole, tau=samples.tau[:, order]),
        )
    for j in every:
        yield from sign_readings(robot, samples, j)
        if robot.n > 1:
            yield without_gravity(robot, samples, (j,))


def sign_readings(robot: RobotModel, samples: Samples, joint: int) -> Iterator[Interpretation]:
    """Yield the readings in which the effort or the position of a joint has the opposite sign."""
    name, sign = robot.joint_names[joint], np.where(np.arange(robot.n) == joint, -1.0, 1.0)
    yield Interpretation(
        "torque-sign",
        "effort with the opposite sign",
        f"set effort.sign = {{ {name} = -1 }} under [log]",
        (joint,),
        robot,
        replace(samples, tau=samples.tau * sign),
    )
    yield Interpretation(
        "position-sign",
        "position with the opposite sign",
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
