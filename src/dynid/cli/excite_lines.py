"""What dynid excite prints of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynid.excitation.plan import Plan, Sheet
    from dynid.excitation.settings import MotionSettings
    from dynid.excitation.torque_plan import TorquePlan

STATES = 2000


def plan_data(plan: Sheet, settings: MotionSettings) -> dict[str, Any]:
    """Figures, margins, checks and stages of a plan, as plain data."""
    from dynid.excitation.checks import checks_of
    from dynid.excitation.stages import stages_of

    checks = checks_of(plan)
    return {
        "not_checked": checks.missing,
        "checked": checks.notes,
        "seconds": plan.trajectory.duration,
        "base_parameters": plan.information.base.rank,
        "figures": plan.figures,
        "margins": plan.margins,
        "verified": plan.verified,
        "stages": [stage for stage, _ in stages_of(plan, settings.output.stages)],
    }


def lines(plan: Sheet, settings: MotionSettings) -> list[str]:
    """What is printed: what was not checked, figures, the tightest bound of each kind, the stages."""
    from dynid.excitation.checks import checks_of
    from dynid.excitation.plan import Plan
    from dynid.excitation.torque_plan import TorquePlan
    from dynid.report.plan import ALL_TOLD

    information = plan.information
    checks = checks_of(plan)
    sheet = [checks.headline, *(checks.notes if checks.missing else ())]
    first = f"{information.robot.name}: {plan.trajectory.duration:.4g} s for {information.base.rank} base parameters"
    if plan.figures.condition < ALL_TOLD:
        first += f", condition number {plan.figures.condition:.3g}, log determinant {plan.figures.logdet:.4g}"
    sheet.append(first)
    if isinstance(plan, Plan | TorquePlan):
        name = "of the chosen quantities" if information.focus is not None else str(information.criterion)
        sheet.append(
            f"criterion {name}: {plan.first:.4g} drawn, {plan.value:.4g} designed "
            f"({_effort(plan)}{', stopped' if plan.stopped else ''})"
        )
    if information.recorded is not None and len(information.recorded):
        sheet.append(_shrunk(plan))
    sheet.append("tightest bounds:")
    for kind in dict.fromkeys(m.what for m in plan.margins):
        sheet.append(f"  {min((m for m in plan.margins if m.what == kind), key=lambda m: m.margin)}")
    sheet += _commanded(plan) if isinstance(plan, TorquePlan) else _reserved(plan)
    return sheet + _staged(plan, settings)


def _staged(plan: Sheet, settings: MotionSettings) -> list[str]:
    from math import isfinite

    from dynid.excitation.stages import stages_of

    sheet = ["speed   length   tool   torque of limit    power   tightest bound"]
    for stage, _ in stages_of(plan, settings.output.stages):
        torque = f"{100 * stage.torque_share:.0f} %" if isfinite(stage.torque_share) else "-"
        power = f"{stage.power:.4g} W" if isfinite(stage.power) else "-"
        rest = "" if stage.rests else "; not at rest at both ends"
        sheet.append(
            f"{100 * stage.share:4.0f} % {stage.seconds:6.4g} s {stage.tool_speed:5.2f} m/s {torque:>9} {power:>12}   "
            f"{stage.tightest}{rest}"
        )
    return sheet


def _shrunk(plan: Sheet) -> str:
    import numpy as np

    from dynid.excitation.quantities import shrinkage

    seconds = plan.trajectory.duration
    motion = plan.trajectory.motion(np.linspace(0.0, seconds, STATES))
    share = shrinkage(plan.information, motion, seconds)
    return (
        f"expected of the intervals of the run: {np.median(share):.2f} of their width is left in the median, "
        f"{share.min():.2f} at best, {share.max():.2f} at worst"
    )


def _effort(plan: Plan | TorquePlan) -> str:
    from dynid.excitation.plan import Plan

    if isinstance(plan, Plan):
        return f"{plan.starts} starts, {plan.iterations} iterations"
    return f"{plan.generations} generations"


def _commanded(plan: TorquePlan) -> list[str]:
    from dynid.excitation.torque_task import VARIANTS

    bounds = plan.task.bounds
    about = (
        f"with masses and friction up to {100 * bounds.uncertainty:g} % wrong"
        if bounds.spread is None
        else "drawn from the run's covariance"
    )
    return [
        f"the torque is commanded; its motion keeps the bounds in the model and in {VARIANTS} others {about}",
        "the arm is not at rest at the end: hold it with its controller",
    ]


def _reserved(plan: Sheet) -> list[str]:
    from dynid.excitation.reserve import reserve_of

    bounds = plan.bounds
    found = reserve_of(plan.information.robot, plan.information.terms, bounds, plan.trajectory)
    if found is None:
        return []
    share = f"{100 * found.share:g} % of the torque"
    if not found.drawn:
        sheet = [f"torque limits keep free a constant share, {share}, as no covariance is known:"]
    else:
        more = f" and {share}, as the run does not determine all base parameters" if found.share > 0 else ""
        sheet = [
            f"torque limits keep free {found.sigmas:g} standard deviations by the run's covariance and "
            f"residuals{more} (at each instant {100 * found.rate:.5g} % stay within):"
        ]
    for one in found.joints:
        of_limit = f", {100 * one.share:.1f} % of the limit" if one.limit < float("inf") else ", no limit"
        more = f", {one.left_out:.3g} of {', '.join(found.left_out)}" if found.left_out else ""
        sheet.append(
            f"  {one.joint}: up to {one.largest:.3g}{of_limit}; greatest torque {one.peak:.4g}{more}"
        )
    if found.drawn:
        sheet.append(
            f"  {found.within} of {found.drawn} models drawn from the covariance keep all limits all the time"
        )
    return sheet
