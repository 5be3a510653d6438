"""On which side of a coupled transmission friction sits, by comparing what both models make of unseen blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UsageError
from dynid.estimate.estimator import Regression
from dynid.estimate.prior import parameter_spread
from dynid.factor.data_base import influence
from dynid.identification.pipeline import identify
from dynid.identification.settings import Settings
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.simulation.effects import own_ratio
from dynid.terms.term import Term, Terms
from dynid.terms.transmission import OnMotor

FRICTION = ("viscous", "coulomb", "coulomb_sides", "polynomial")
SIDES = ("joint", "motor", "both")
DECISIVE = 3.0


@dataclass(frozen=True, eq=False)
class SideComparison:
    """Friction at the joints against friction at the motors.

    side: "joint", "motor", or "undecided".    joint, motor: both fits.
    relative: (2, n) relative error by joint on held-out blocks, joint side first.
    difference: sum over held-out blocks of (squared errors of the joint-side fit - those of the motor-side fit),
        each joint's in units of its noise; positive speaks for the motors.    std: of that difference over blocks.
    text: the answer in words.
    """

    side: str
    joint: Identification
    motor: Identification
    relative: Float
    difference: float
    std: float
    text: str


def friction_on(
    terms: Terms, side: str, friction: Sequence[str] = FRICTION, robot: RobotModel | None = None
) -> Terms:
    """The same model with its friction terms on the "joint" or the "motor" side; friction: their names.

    robot: if given, widths of smoothed signs are turned from joint to motor velocities, or back, by the median ratio.
    """
    if side not in ("joint", "motor"):
        raise UsageError("friction-side", found=f"side '{side}'", expected="'joint' or 'motor'")
    ratio = 1.0 if robot is None else float(np.median(np.abs(own_ratio(robot.drive))))

    def placed(term: Term) -> Term:
        inner = term.of if isinstance(term, OnMotor) else term
        if inner.name not in friction or isinstance(term, OnMotor) == (side == "motor"):
            return term
        return OnMotor(_widened(inner, ratio)) if side == "motor" else _widened(inner, 1.0 / ratio)

    return Terms(tuple(placed(term) for term in terms))


def on_side(
    robot: RobotModel, log: Log, settings: Settings, side: str, diagnostics: Diagnostics
) -> tuple[Settings, SideComparison | None]:
    """Settings with friction at the joints, at the motors, or (side "both") where unseen blocks of the log want it.

    With "both" the comparison is returned as well and noted; undecided, the settings stay as they are.
    Raises UsageError for another side, and what `compare_sides` raises.
    """
    if side not in SIDES:
        raise UsageError("friction-side", found=f"side '{side}'", expected=", ".join(SIDES))
    found = compare_sides(robot, log, settings) if side == "both" else None
    if found is not None:
        diagnostics.note("friction-side", found.text)
        side = found.side
    if side == "undecided":
        return settings, found
    return replace(settings, terms=friction_on(settings.model, side, robot=robot)), found


def compare_sides(
    robot: RobotModel,
    log: Log,
    settings: Settings | None = None,
    *,
    friction: Sequence[str] = FRICTION,
    diagnostics: Diagnostics | None = None,
) -> SideComparison:
    """Fits both models to a log and says which one the data prefer, by blocks that were held out of each fit.

    Where no motor moves several joints the two are one model, and the answer is "undecided".
    Raises UsageError if the model holds none of the friction terms or the log is too short to hold blocks out.
    """
    chosen = settings or Settings()
    models = {side: friction_on(chosen.model, side, friction, robot) for side in ("joint", "motor")}
    if models["joint"] == models["motor"]:
        raise UsageError(
            "no-friction", found="a model without " + ", ".join(friction), expected="one of them"
        )
    sink = diagnostics if diagnostics is not None else Diagnostics()
    joint, motor = (
        identify(robot, log, replace(chosen, terms=models[side]), diagnostics=own)
        for side, own in (("joint", sink), ("motor", Diagnostics()))
    )
    errors = np.stack([_held_out_squares(one, chosen) for one in (joint, motor)])
    counts = np.array([[f.count for f in b.groups] for b in joint.factors.blocks], dtype=np.float64)
    torque = np.array([f.target_square for f in joint.factors.total])
    noise = errors.sum(axis=1).min(axis=0) / counts.sum(axis=0)
    gap = ((errors[0] - errors[1]) / np.maximum(noise, 1e-300)).sum(axis=1)
    difference, std = float(gap.sum()), float(np.sqrt(len(gap)) * gap.std(ddof=1))
    relative = np.sqrt(errors.sum(axis=1) / np.maximum(torque, 1e-300))
    side = "undecided"
    if (robot.drive.coupled or robot.drive.linkages) and abs(difference) > DECISIVE * std > 0:
        side = "motor" if difference > 0 else "joint"
    return SideComparison(
        side, joint, motor, relative, difference, std, _text(side, robot, relative, difference, std)
    )


def _widened(term: Term, factor: float) -> Term:
    width = getattr(term, "width", None)
    return term if width is None else replace(term, width=width * factor)


def _held_out_squares(found: Identification, settings: Settings) -> Float:
    # (blocks, groups) squared errors of each block by a fit that has not seen it.
    base = found.estimate.base
    factors = found.factors.select(base.mask)
    columns = found.estimate.columns
    spread = parameter_spread(found.robot, columns, influence(found.factors))
    M = len(factors.blocks)
    if 2 * settings.folds > M:
        raise UsageError(
            "too-short-to-hold-out",
            found=f"{M} blocks of data",
            expected=f"at least {2 * settings.folds}, to hold some out",
            do="take a longer log, smaller block_seconds or fewer folds",
        )
    squares = np.zeros((M, len(factors.group_names)))
    for fold in np.array_split(np.arange(M), settings.folds):
        training = factors.subset(sorted(set(range(M)) - set(fold.tolist())))
        theta = settings.estimator.fit(Regression(columns, base, training, spread)).full_vector
        for m in fold:
            squares[m] = [group.residual_square(theta) for group in factors.blocks[m].groups]
    return squares


def _text(side: str, robot: RobotModel, relative: Float, difference: float, std: float) -> str:
    worst = int(np.argmax(np.abs(relative[0] - relative[1])))
    figures = (
        f"joint '{robot.joint_names[worst]}' differs most: {100 * relative[0, worst]:.3g} % missed with friction at "
        f"the joints, {100 * relative[1, worst]:.3g} % with friction at the motors"
    )
    if side != "undecided":
        return f"friction sits at the {side}s ({abs(difference) / std:.3g} standard deviations); {figures}"
    if not robot.drive.coupled and not robot.drive.linkages:
        return "no motor moves several joints: friction at joints and motors is the same model"
    return f"these data do not tell joint-side from motor-side friction; {figures}"
