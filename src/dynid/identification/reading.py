"""Filters, rows and terms that fit a log, and its samples."""

from __future__ import annotations

from dataclasses import replace

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UsageError
from dynid.identification.encoders import for_encoders
from dynid.identification.steps import Call, Data
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.rows.automatic import choose_rows
from dynid.rows.rows import Rows
from dynid.run.blocks import blocks_of
from dynid.run.validation import read_samples, stage
from dynid.signals.prepare import prepare
from dynid.signals.repetition import repetitions
from dynid.terms.catalogue import with_described
from dynid.terms.term import Scale, Terms


def read_data(call: Call) -> Data:
    """Filters, rows and terms that fit the log, and its samples."""
    robot, log, settings, diagnostics = call.robot, call.log, call.settings, call.diagnostics
    prepared = prepare(log, settings.preparation, diagnostics)
    choice = choose_rows(settings.rows, robot, settings.model, prepared, diagnostics)
    prepared = choice.prepared(prepared)
    terms, rows = for_encoders(
        robot, settings.model, choice.rows, log.mapping, diagnostics, settings.chooses_model
    )
    if settings.chooses_model:
        terms = with_described(terms, robot)
    settings = replace(settings, terms=terms)
    _require_efforts(robot, log, rows)
    _require_scale(terms, diagnostics)
    batches, summary, rest = read_samples(
        prepared,
        diagnostics,
        terms.balances(robot),
        call.threads,
        stage(call.progress, "reading"),
    )
    _warn_of_rest(summary.at_rest, diagnostics)
    found = repetitions(batches, {one.name for one in log.trajectories})
    gaps = sum(one.gaps for one in summary.trajectories)
    blocks = blocks_of(found, prepared, settings.block_seconds, rest.seconds, gaps)
    return Data(settings, prepared, choice, rows, batches, summary, rest, found, blocks)


def _warn_of_rest(at_rest: tuple[str, ...], diagnostics: Diagnostics) -> None:
    for name in at_rest:
        diagnostics.warn(
            "joint-at-rest",
            f"joint '{name}' never moved: its friction and rotor inertia are not identified; move it, or take it out "
            f"of the model (--lock {name}=VALUE)",
        )


def _require_efforts(robot: RobotModel, log: Log, rows: Rows) -> None:
    if not log.unmeasured or set(rows.groups(robot)) & set(robot.joint_names):
        return
    raise UsageError(
        "no-effort",
        found=f"{rows.name} rows, which hold the work of all joints, and no effort of {', '.join(log.unmeasured)}",
        expected="the effort of every joint",
        do="choose torque or momentum rows, which leave out the equation of such a joint",
    )


def _require_scale(terms: Terms, diagnostics: Diagnostics) -> None:
    # With a free gain every torque is right: only a payload of known mass fixes the scale.
    scales = {term.scale for term in terms}
    if Scale.FREES in scales and Scale.FIXES not in scales:
        diagnostics.warn(
            "no-scale",
            "drive gains are free without a payload of known mass: nothing in the equations fixes their scale, and "
            "scores in units of the measured torque mean little",
        )
