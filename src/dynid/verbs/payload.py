"""The payload of an identified robot: mass, centre and inertia from a log with it mounted, as one consistent body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UsageError
from dynid.base.numbers import with_interval
from dynid.base.parallel import pass_threads
from dynid.base.scipy_functions import stdtrit
from dynid.identification.further_log import training_log
from dynid.log.read import Log, as_log
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.verbs.payload_consistent import consistent_load
from dynid.verbs.payload_equations import LoadLogs
from dynid.verbs.payload_fit import LoadEstimate, Nuisances, ScaleRule, View, estimate_load
from dynid.verbs.payload_result import OPEN, Payload, TorqueScale

# A model of the same arm explains most of a loaded log; another arm's does not.
FOREIGN = 0.5
# Rounds in which lean and friction by load are linearised anew about the load that was found.
ROUNDS = 2


def scale_rule(robot: RobotModel) -> ScaleRule:
    """Declared drive gains where every joint has one; else the description's masses; else torque as it is logged."""
    if np.isfinite(robot.drive.drive_gain).all():
        return ScaleRule.GAINS
    described = np.isfinite(robot.inertia_prior).all() and (robot.inertia_prior[:, 0] > 0).any()
    return ScaleRule.DESCRIPTION if described else ScaleRule.GAINS


def find_payload(
    run: Identification,
    log: Log,
    *,
    unloaded: Log | None = None,
    scale: ScaleRule | None = None,
    nuisances: Nuisances | None = None,
    threads: int | None = None,
    diagnostics: Diagnostics | None = None,
) -> Payload:
    """The payload at the last body of an identified robot, from a log with it mounted; see `payload`.

    unloaded: the log without the load; None = the run's own, if it is still there.    scale: None = `scale_rule`.
    Raises UsageError for a run without rigid bodies or without equations by joint, or a scale by a description without
    masses; UnfitDataError if the log is too short. Claims: other-arm, where the model with a load misses half of it.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    rule = scale or scale_rule(run.robot)
    if rule is ScaleRule.DESCRIPTION and not np.isfinite(run.robot.inertia_prior).all():
        raise UsageError(
            "payload-scale",
            found="a description without masses",
            expected="the mass and inertia of every link",
            do="take --scale gains",
        )
    alone = unloaded if unloaded is not None else training_log(run, sink)
    if alone is None:
        sink.warn(
            "unloaded-log-gone",
            "the log without the load is not there any more, or was changed: a lean of the base and friction by load "
            "are estimated in the loaded log alone",
        )
    logs = LoadLogs(run, log, alone, sink, pass_threads(threads))
    load = np.zeros(10)
    for _ in range(ROUNDS):
        equations = logs.equations(load)
        joint = estimate_load(equations, rule, nuisances=nuisances)
        load = consistent_load(joint)
    known = (joint.log_scale, joint.log_scale_covariance)
    others = (
        estimate_load(equations, rule, View.DIFFERENCE, nuisances, known),
        estimate_load(equations, rule, View.STATICS, nuisances),
    )
    moved = load - joint.parameters
    found = Payload(
        body=run.robot.body_names[-1],
        parameters=load,
        covariance=joint.covariance + np.outer(moved, moved),
        noise=joint.noise,
        by_scale=joint.by_scale,
        blocks=len(equations.moving.blocks),
        standstills=0 if equations.resting is None else len(equations.resting.blocks),
        scale=_scale(run.robot, rule, joint),
        views=tuple(_view(one, len(equations.moving.blocks)) for one in (joint, *others)),
        relative=joint.relative,
        relative_without=joint.relative_without,
        before=joint.before,
    )
    _judge(found, sink)
    return found


def payload(
    run: Identification,
    log: Any,
    *,
    unloaded: Any = None,
    scale: str | None = None,
    reference: Any = None,
    reference_mass: float | None = None,
    threads: int | None = None,
    diagnostics: Diagnostics | None = None,
    accept: Sequence[str] = (),
) -> Payload:
    """The payload at the last body of an identified robot, from a log with it mounted: one consistent body.

    Motion and standstills are fitted together; gains, friction, its growth with the load, hoses and a lean of the
    base are nuisances with plausible sizes, which the intervals hold.
    log, unloaded: a Log or a data frame, with the load and without; unloaded None = the run's own log.
    scale: "gains" or "description", what fixes the size of all torques; None = declared gains, else the description's
    masses.
    reference, reference_mass: a log with a load of known mass (kg), which fixes the scale instead.
    accept: codes of claims that are to warn, not to stop, beside those accepted in the run.

    Raises UsageError for one of reference and reference_mass alone, an unknown scale or an accepted code that is not
    found, and as `find_payload`.
    """
    if (reference is None) != (reference_mass is None):
        raise UsageError(
            "reference-mass",
            found="one of reference and reference_mass",
            expected="both: a log and the mass of the load in it",
        )
    if scale is not None and scale not in {rule.value for rule in ScaleRule}:
        raise UsageError(
            "payload-scale", found=f"scale = '{scale}'", expected="gains or description, or none for the rule"
        )
    rule = None if scale is None else ScaleRule(scale)
    sink = diagnostics if diagnostics is not None else Diagnostics()
    sink.accept((*run.accepted, *accept))
    channels = run.terms.channels()
    alone = None if unloaded is None else as_log(unloaded, run.robot, channels)

    def found_in(one: Any) -> Payload:
        opened = as_log(one, run.robot, channels)
        return find_payload(run, opened, unloaded=alone, scale=rule, threads=threads, diagnostics=sink)

    found = found_in(log)
    if reference is not None and reference_mass is not None:
        found = found.calibrated(found_in(reference), reference_mass)
    sink.require_found(accept)
    return found


def _scale(robot: RobotModel, rule: ScaleRule, joint: LoadEstimate) -> TorqueScale:
    factor = np.exp(joint.log_scale)
    half = stdtrit(np.inf, 0.975) * factor * np.sqrt(np.diag(joint.log_scale_covariance))
    return TorqueScale(rule, robot.joint_names, factor, np.asarray(half), joint.described)


def _view(estimate: LoadEstimate, blocks: int) -> tuple[View, float, float]:
    # The joint fit's own scale counts with the others, too, so that their intervals can be compared.
    load = consistent_load(estimate)
    moved = load[0] - estimate.parameters[0]
    half = float(stdtrit(blocks - 1, 0.975) * np.sqrt(estimate.covariance[0, 0] + moved**2))
    return estimate.view, float(load[0]), half


def _judge(found: Payload, diagnostics: Diagnostics) -> None:
    if found.relative > FOREIGN:
        diagnostics.claim(
            "other-arm",
            found=f"a torque error of {100 * found.relative:.0f} % with the best payload",
            expected="the log of the arm that the run is about, with a payload",
            do="check which robot, mapping and units the log belongs to",
        )
    if not found.determined[0]:
        diagnostics.warn(
            "payload-open",
            f"the mass is {OPEN}: neither its weight nor its acceleration loads a joint, or much less than the noise",
        )
        return
    low, high = found.interval()[0]
    if low <= 0:
        diagnostics.warn(
            "no-payload", f"a mass of {found.mass:.3g} kg does not differ from none; at most {high:.3g} kg"
        )
    (_, mass, half), *others = found.views
    for view, other, wide in others:
        if abs(other - mass) > half + wide:
            diagnostics.warn(
                "payload-views",
                f"{view} says {with_interval(other, wide)} kg, beside {with_interval(mass, half)} kg: the model "
                "lacks an effect that looks like a load",
            )
