"""Drive gain: the factor between what the drive reports and the torque at the joint."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.kernel import gravity_torque, inverse_dynamics
from dynid.log.effort_size import GEARED, size_advice
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.joint_term import JointTerm
from dynid.terms.payload import UNSURE
from dynid.terms.residual_tests import FitAnalysis, Level, Notice
from dynid.terms.term import Scale, Symbol
from dynid.terms.torque_scale import common_scale

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
    symbols = (Symbol("dk", "δk", "", "deviation of the drive gain"),)
    unit_revolute = "1"
    unit_prismatic = "1"
    lower = -1.0
    of_log = True
    scale = Scale.FREES

    def prior(self, robot: RobotModel) -> Float:
        """Zero: the declared gain is right."""
        return np.zeros(robot.n)

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Minus the torque by the declared gain."""
        return -samples.tau

    @classmethod
    def against_description(cls, fit: FitAnalysis) -> Iterator[Notice]:
        """Torque of another size than the described bodies', or than an arm of this reach can have.

        Over a factor of 5 units are suspected, over 30 doubted; one factor on all bodies is doubted from 1.4 on,
        where the description is known well enough to tell and no load explains it better.
        """
        sizes = size_against_description(fit)
        if sizes is None or not np.isfinite(sizes).any():
            heavy = heaviness(fit)
            if heavy is not None and heavy > HEAVY:
                yield Notice(
                    "unit-suspicion",
                    Level.WARNING,
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
        yield Notice(
            "unit-suspicion",
            Level.WARNING if 1 / SIZE_DOUBT < middle < SIZE_DOUBT else Level.DOUBT,
            f"identified bodies whose torque is {middle:.3g} times that of the described ones ({names})",
            "a ratio near 1",
            f"{size_advice(middle)}; or correct the description's masses",
        )


def _agreed(sizes: Float) -> float:
    """The factor that half of the joints exceed at least: of the two in the middle the one that is nearer to one."""
    logs = np.sort(np.log(sizes))
    pair = logs[[(len(logs) - 1) // 2, len(logs) // 2]]
    return float(np.exp(pair[np.abs(pair).argmin()]))


def _of_scale(fit: FitAnalysis) -> Iterator[Notice]:
    scale = common_scale(fit)
    if scale is None or abs(np.log(scale.factor)) < np.log(SCALE_DOUBT) or not scale.sure:
        return
    low, high = scale.limits
    yield Notice(
        "torque-scale",
        Level.DOUBT,
        f"gravity torque {scale.factor:.3g} times that of the description ({low:.2g} to {high:.2g} where its masses "
        f"are known to {100 * UNSURE:.2g} %)",
        "the masses of the description, or a scale of torque that is known",
        size_advice(scale.factor)
        or "check torque constants, gear ratios and the unit and side of the effort under [log], or the description's "
        "masses; weigh a known payload (dynid payload) to find out which",
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
