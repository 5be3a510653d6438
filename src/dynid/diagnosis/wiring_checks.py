"""Other readings of a log: joints exchanged, signs turned, gravity taken off or from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, product

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Claim, Diagnostics
from dynid.base.errors import Place
from dynid.base.records import dataclass
from dynid.diagnosis.proof import CHANCE, HeldOut, Reading, chance_of_gain
from dynid.diagnosis.residual_analysis import ResidualAnalysis, regressor
from dynid.kernel import cho_factor, cho_solve
from dynid.log.prior_check import TURNED, square
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.spatial.algebra import rotation_about
from dynid.terms.exports import Scale, Side
from dynid.terms.term import Terms

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

# By which motors turn with joints before theirs: bevel gears of wrists and bars of a parallelogram.
GEARS = (1.0, -1.0)
# By which the motors of a differential turn with the second of its joints, over the first: powers of this from a
# quarter to four, of which the best is refined by halving the step of its exponent so often, to 4 %.
SHARED_GEARS_STEP, STEPS, SHARED_GEARS_HALVED = 2.0**0.5, 4, 3


@dataclass(frozen=True, eq=False)
class SharedGears:
    """Motors that turn by theta = N q, and torque that is theirs: u = N^-T tau.

    N: (n, n), 1 on the lines of motors with gears of their own.    motors: those that share gears.
    counted: whether the log has theta and tau, in place of q and u.
    """

    N: Float
    motors: tuple[int, ...]
    counted: bool = False

    @staticmethod
    def of_motor(n: int, motor: int, joint: int, factor: float, counted: bool = False) -> SharedGears:
        """A motor that turns by its joint's angle and so many times another's."""
        N = np.eye(n)
        N[motor, joint] = factor
        return SharedGears(N, (motor,), counted)

    @staticmethod
    def differential(n: int, first: int, second: int, factor: float, sign: float) -> SharedGears:
        """Two motors of which both joints turn both: theta = (q_1 + f q_2, s (q_1 - f q_2))."""
        N, pair = np.eye(n), [first, second]
        N[np.ix_(pair, pair)] = [[1.0, factor], [sign, -sign * factor]]
        return SharedGears(N, (first, second))

    def regressor(self, Y: Float, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Float:
        """Columns of the logged torque: motors feel their own motion, and the bodies through the gears.

        Y: (n, N, w) columns of the joints' torque, see `dynid.diagnosis.residual_analysis.regressor`.
        """
        if self.counted:
            at_joints = np.linalg.inv(self.N).T
            moved = replace(
                samples, q=samples.q @ at_joints, dq=samples.dq @ at_joints, ddq=samples.ddq @ at_joints
            )
            return regressor(robot, terms, moved, wanted)[0]
        at_motors = replace(samples, dq=samples.dq @ self.N.T, ddq=samples.ddq @ self.N.T)
        found = np.tensordot(np.linalg.inv(self.N).T, Y, 1)
        first, place = 0, np.cumsum(wanted) - 1
        for term in terms:
            own = slice(first, first := first + len(term.columns(robot)))
            if term.traits.side is Side.MOTOR and wanted[own].any():
                of_motors, _ = regressor(robot, Terms((term,)), at_motors, wanted[own])
                found[:, :, place[own][wanted[own]]] = of_motors
        return np.asarray(found)

    def words(self, names: tuple[str, ...]) -> tuple[str, str]:
        """What the motors do, and how it is declared."""
        if len(self.motors) == 1:
            (motor,) = self.motors
            joint = next(j for j in np.flatnonzero(self.N[motor]).tolist() if j != motor)
            if self.counted:
                return self._words_of_angles(names[motor], names[joint], float(self.N[motor, joint]))
            return (
                f"torque of motors of which that of '{names[motor]}' turns with '{names[joint]}', too",
                f'declare what turns with what ([[drive.coupling]] motor = "{names[motor]}", joint = "{names[joint]}", '
                f'factor = {self.N[motor, joint]:.3g}) and torque_side = "motor" under [drive]',
            )
        return self._words_of_differential(names)

    def _words_of_angles(self, motor: str, joint: str, factor: float) -> tuple[str, str]:
        other = "minus" if factor > 0 else "plus"
        return (
            f"an angle of '{motor}' that counts that of '{joint}', too, as one to the horizontal does: the joint's is "
            f"the logged one {other} that of '{joint}'",
            f'correct the log, or declare it ([[drive.coupling]] motor = "{motor}", joint = "{joint}", factor = '
            f'{factor:.3g}) with position.side = "motor" and effort.side = "link" under [log]',
        )

    def _words_of_differential(self, names: tuple[str, ...]) -> tuple[str, str]:
        first, second = self.motors
        rows = ", ".join(f"[{', '.join(f'{one:.3g}' for one in row)}]" for row in self.N)
        return (
            f"torque of the two motors of a differential that moves '{names[first]}' and '{names[second]}' together",
            f"declare it (transmission = [{rows}], each row times the gear ratio where torque is that of a shaft, and "
            'torque_side = "motor") under [drive] in a TOML file of the robot',
        )


def shared_gears(
    n: int, motors: Collection[int], poor: Collection[int], gain_of: Callable[[SharedGears], float]
) -> Iterator[SharedGears]:
    """Gears and angles of each motor with every other joint, and the best differential of poor neighbours.

    gain_of: of a reading over the log as declared, more is better.
    """
    for motor, joint, factor in product(motors, range(n), GEARS):
        if joint != motor:
            yield SharedGears.of_motor(n, motor, joint, factor)
            yield SharedGears.of_motor(n, motor, joint, factor, counted=True)
    for first in range(n - 1):
        if first in poor and first + 1 in poor:
            for turned, sign in product((1.0, -1.0), repeat=2):
                yield _best_differential(n, first, turned, sign, gain_of)


def _best_differential(
    n: int, first: int, turned: float, sign: float, gain_of: Callable[[SharedGears], float]
) -> SharedGears:
    def at(exponent: float) -> SharedGears:
        return SharedGears.differential(n, first, first + 1, turned * SHARED_GEARS_STEP**exponent, sign)

    @cache
    def gain_at(exponent: float) -> float:
        return gain_of(at(exponent))

    best = max(map(float, range(-STEPS, STEPS + 1)), key=gain_at)
    for k in range(1, SHARED_GEARS_HALVED + 1):
        best = max((best, best - 0.5**k, best + 0.5**k), key=gain_at)
    return at(best)


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
    readings = [without_gravity(analysis.robot, samples)]
    if (declared > POOR).any():
        readings += [*wirings(analysis.robot, samples), *mounted(analysis, samples, declared)]
    found = _better(analysis, samples, declared, readings)
    coupled = _coupled(analysis, samples, declared, None if found is None else found[0])
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
    values = [misfits(analysis, one.robot, one.samples) for one in readings]
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
        what, declare = self.gears.words(names)
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
        without_gravity(analysis.robot, samples),
        *wirings(analysis.robot, samples),
        replace(reading, samples=samples),
    )
    same = next(one for one in readings if (one.identifier, one.what, one.joints) == _key(reading))
    plain = Reading(analysis.robot, samples)
    fits = [
        HeldOut.of(analysis, plain),
        HeldOut.of(analysis, Reading(same.robot, same.samples)),
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


def _coupled(
    analysis: ResidualAnalysis, samples: Samples, declared: Float, rival: Interpretation | None
) -> _Shared | None:
    """The shared gears that mend most, if they do decisively, among motors that miss much or that a rival names."""
    if samples.theta is not None:
        return None

    robot, (terms, wanted) = analysis.robot, analysis.plain_model
    Y, complete = regressor(robot, terms, samples, wanted)
    if not complete:
        return None

    def read(gears: SharedGears) -> _Shared | None:
        after = misfits(analysis, robot, samples, gears.regressor(Y, robot, terms, samples, wanted))
        if after is None:
            return None
        return _Shared(gears, _gain(declared, after), np.sqrt(declared), np.sqrt(after))

    def gain_of(gears: SharedGears) -> float:
        found = read(gears)
        return -np.inf if found is None else found.gain

    n = analysis.robot.n
    named = rival.joints if rival is not None and rival.identifier in WIRING else ()
    poor = [j for j in range(n) if declared[j] > FITS**2]
    motors = [j for j in range(n) if j in poor or j in named]
    tried = [read(one) for one in shared_gears(n, motors, poor, gain_of)]
    best = max((one for one in tried if one is not None), key=lambda one: one.gain, default=None)
    if best is None or best.gain <= np.log(DECISIVE):
        return None
    worst = int(np.nanargmax(best.before - best.after))
    fits = best.after[list(best.gears.motors)].max() <= FITS
    return best if fits and best.after[worst] <= MENDS * best.before[worst] else None


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


def misfits(
    analysis: ResidualAnalysis, robot: RobotModel, samples: Samples, Y: Float | None = None
) -> Float | None:
    """Mean square error over variance of a least-squares fit by joint, (n,), at least 1e-12; nan with few samples.

    Y: (n, N, w) columns of the plain model where they are not those of this robot and these samples.
    Returns None if a term of the model reads more than motion.
    """
    terms, wanted = analysis.plain_model
    if Y is None:
        Y, complete = regressor(robot, terms, samples, wanted)
        if not complete:
            return None
    y = samples.tau - terms.known_torque(robot, samples)
    gate = np.ones(y.shape) if samples.gate is None else samples.gate.astype(np.float64)
    count = gate.sum(axis=0)
    joints = [j for j in analysis.joints if count[j] >= LEAST_SAMPLES]
    weight = (gate / np.maximum(y.std(axis=0), 1e-12)).T
    n, N, b = Y.shape
    rows = (Y * weight[:, :, None]).reshape(n * N, b)
    size = np.linalg.norm(rows, axis=0)
    rows = rows[:, size > 0] / size[size > 0]
    target = (y.T * weight).reshape(-1)
    # Normal equations with a trace of ridge and one refinement: as good as orthogonal ones at this depth, and quick.
    gram = cho_factor(rows.T @ rows + RIDGE * np.eye(rows.shape[1]))
    left = target - rows @ cho_solve(gram, rows.T @ target)
    left = (left - rows @ cho_solve(gram, rows.T @ left)).reshape(n, N)
    found = np.full(n, np.nan)
    found[joints] = np.maximum((left**2).sum(axis=1)[joints] / count[joints], 1e-12)
    return found


def without_gravity(robot: RobotModel, samples: Samples) -> Interpretation:
    """Torque from which gravity has been taken off."""
    return Interpretation(
        "gravity-compensated",
        "torque without gravity",
        "log the measured torque, not the one that is left after gravity compensation",
        tuple(range(robot.n)),
        replace(robot, gravity=np.zeros(3)),
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
    """Every two joints' efforts, positions or both exchanged; every joint's effort or position of the other sign."""
    names = robot.joint_names
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
    for j in range(robot.n):
        yield from sign_readings(robot, samples, j)


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
