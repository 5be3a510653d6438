"""On which side of a coupled transmission friction sits, by comparing what both models make of unseen blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Regression
from dynid.estimate.physical import unconstrained
from dynid.estimate.prior import parameter_spread
from dynid.factor.comparison import Candidate, compare
from dynid.factor.data_base import influence
from dynid.factor.factor import Block
from dynid.factor.folds import LEAST_BLOCKS, folds_of, too_few_blocks
from dynid.identification.pipeline import identify
from dynid.identification.settings import Settings
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.terms.catalogue import CATALOGUE
from dynid.terms.term import Terms
from dynid.terms.transmission import placed_at

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


def friction_on(terms: Terms, side: str, robot: RobotModel | None = None) -> Terms:
    """The same model with its plain friction on the "joint" or the "motor" side.

    robot: if given, widths of smoothed signs are turned from joint to motor velocities, or back, by the median ratio.
    """
    if side not in ("joint", "motor"):
        raise UsageError("friction-side", found=f"side '{side}'", expected="'joint' or 'motor'")
    ratio = 1.0 if robot is None else float(np.median(np.abs(robot.drive.own_ratio)))
    return Terms(tuple(placed_at(term, side == "motor", ratio) for term in terms))


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
    return replace(settings, terms=friction_on(settings.model, side, robot)), found


def compare_sides(
    robot: RobotModel,
    log: Log,
    settings: Settings | None = None,
    *,
    diagnostics: Diagnostics | None = None,
) -> SideComparison:
    """Fits both models to a log and says which one the data prefer, by blocks that were held out of each fit.

    Where no motor moves several joints the two are one model, and the answer is "undecided".
    Raises UsageError if the model holds none of the friction terms, UnfitDataError if the log is too short to hold
    blocks out.
    """
    # Models are compared by estimates that no constraint bends.
    chosen = settings or Settings()
    # What is accepted for one of two models need not be found with the other.
    sink = diagnostics if diagnostics is not None else Diagnostics()
    sink.accept(chosen.accept)
    other = Diagnostics(accepting=sink.accepting)
    chosen = replace(chosen, accept=(), estimator=unconstrained(chosen.estimator))
    models = {side: friction_on(chosen.model, side, robot) for side in ("joint", "motor")}
    if models["joint"] == models["motor"]:
        movable = ", ".join(name for name, kind in CATALOGUE.items() if kind.either_side)
        raise UsageError("no-friction", found=f"a model without {movable}", expected="one of them")
    joint, motor = (
        identify(robot, log, replace(chosen, terms=models[side]), diagnostics=own)
        for side, own in (("joint", sink), ("motor", other))
    )
    # Either fit may have left out times that spoilt it: errors are paired on the blocks that both have whole.
    places = [{_equations(block): m for m, block in enumerate(one.factors.blocks)} for one in (joint, motor)]
    common = [place for place in places[0] if place in places[1]]
    if len(common) < LEAST_BLOCKS:
        raise too_few_blocks(len(common))
    errors = np.stack(
        [
            _held_out_squares(one, chosen)[[place[key] for key in common]]
            for one, place in zip((joint, motor), places, strict=True)
        ]
    )
    blocks = [joint.factors.blocks[places[0][key]] for key in common]
    counts = np.array([[f.count for f in block.groups] for block in blocks], dtype=np.float64)
    torque = np.array([[f.target_square for f in block.groups] for block in blocks]).sum(axis=0)
    noise = errors.sum(axis=1).min(axis=0) / counts.sum(axis=0)
    judged = [
        Candidate(side, one.estimate.base.rank, (squares / np.maximum(noise, 1e-300)).sum(axis=1))
        for side, one, squares in zip(("joint", "motor"), (joint, motor), errors, strict=True)
    ]
    found = compare(judged, counts.sum(axis=1), errors=DECISIVE)
    difference = float((judged[0].squares - judged[1].squares).sum())
    std = float(found.excess_std.max())
    relative = np.sqrt(errors.sum(axis=1) / np.maximum(torque, 1e-300))
    side = "undecided"
    if (robot.drive.coupled or robot.drive.linkages) and not found.within.all():
        side = found.winner.name
    return SideComparison(
        side, joint, motor, relative, difference, std, _text(side, robot, relative, difference, std)
    )


def _equations(block: Block) -> tuple[object, ...]:
    return block.trajectory, block.segment, block.start, *(group.count for group in block.groups)


def _held_out_squares(found: Identification, settings: Settings) -> Float:
    # (blocks, groups) squared errors of each block by a fit that has not seen it.
    base = found.estimate.base
    factors = found.factors.select(base.mask)
    columns = found.estimate.columns
    spread = parameter_spread(found.robot, columns, influence(found.factors))
    squares = np.zeros((len(factors.blocks), len(factors.group_names)))
    folds = folds_of(factors, settings.folds)
    if not folds:
        raise too_few_blocks(len(factors.blocks))
    for fold in folds:
        training = factors.subset(fold.training)
        theta = settings.estimator.fit(Regression(columns, base, training, spread)).full_vector
        for m in fold.held_out:
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
    return f"these data do not separate joint-side from motor-side friction; {figures}"
