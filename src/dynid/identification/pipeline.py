"""The main job in one verb: a robot and its log in, a judged model out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Thread
from typing import Any

from dynid.base.diagnostics import Diagnostics, claim_codes
from dynid.base.parallel import default_threads, pass_threads
from dynid.base.progress import Progress
from dynid.estimate.physical import unphysical
from dynid.identification.commands import with_found_servo
from dynid.identification.examining import examine
from dynid.identification.fitting import fit_sound
from dynid.identification.held_out_blocks import hold_out_blocks, score_held_out_log
from dynid.identification.reading import read_data
from dynid.identification.settings import Settings, needs_of, settings_to_experiment
from dynid.identification.steps import Call
from dynid.log.absent import UNEXPLAINED
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.run.links import mass_findings
from dynid.run.provenance import provenance
from dynid.run.result import Identification
from dynid.run.verdict import judge
from dynid.signals.resting_joints import unexplained_at_rest, unexplained_hands


def identify(
    robot: RobotModel,
    log: Log,
    settings: Settings | None = None,
    *,
    validation: Log | None = None,
    truth: Mapping[str, float] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    experiment: Mapping[str, Any] | None = None,
    files: Mapping[str, Any] | None = None,
    diagnostics: Diagnostics | None = None,
    accept: Sequence[str] = (),
) -> Identification:
    """Identifies the robot's dynamics from a log and judges the result on data that was not fitted.

    robot: joints that are held in the log's robot, as the log does not hold them, are held in the result.
    validation: a log that is held out; without one, contiguous blocks of the log are held out in turn.
    truth: parameter values by name, for simulated robots.    threads: of passes over the log and of
    simulations; None = one, and all processors; results do not depend on it.
    progress: called with (stage, seconds of data done).
    experiment: what to write down of it; None = that of the settings.    files: named in commands that repeat the run.
    diagnostics: sink that may already hold what reading the robot and the log found.
    accept: codes of claims that are to warn, not to be doubts, beside those of the settings.

    What physics says against the log is a doubt: it caps the verdict and stops nothing.
    Raises UnfitDataError if the log cannot support an identification, InputError if it cannot be read, UsageError for
    an accepted code that is not found.
    """
    chosen = _of_commands(settings or Settings(), log).resolved()
    chosen = replace(chosen, accept=(*chosen.accept, *claim_codes(accept)))
    sink = diagnostics if diagnostics is not None else Diagnostics()
    sink.accept(chosen.accept)
    robot = log.held_in(robot)
    log = log.of_robot(robot)
    log = _without_unexplained(log, sink)
    robot = log.robot
    validation = None if validation is None else validation.of_robot(robot)
    log, validation = _without_gripping(log, validation, sink)
    simulating = threads or default_threads()
    robot, log, validation = _with_torque(robot, log, validation, chosen, simulating, sink)
    call = Call(robot, log, chosen, pass_threads(threads), simulating, progress, sink)
    if settings is not None and settings.choice_left_out:
        sink.warn("model-not-chosen", settings.choice_left_out)
    started = time.perf_counter()
    hashes = Thread(target=lambda: log.sha256, name="hash", daemon=True)
    hashes.start()  # the files are hashed while they are read
    data, found, training, analysis, masked = fit_sound(call, read_data(call))
    diagnosed = examine(call, data, found, analysis)
    if validation is None:
        validations = hold_out_blocks(call, data, found)
    else:
        hashes.join()
        validations = (score_held_out_log(call, data, found, validation, training),)
    hashes.join()
    sink.require_found(chosen.accept)
    residual_findings = masked + diagnosed()
    nonlinear, fitted = found.nonlinear, found.fitted
    return Identification(
        experiment=dict(experiment) if experiment is not None else settings_to_experiment(call.settings),
        files=dict(files or {}),
        robot=robot,
        terms=nonlinear.terms,
        structural=fitted.structural,
        estimate=found.estimate,
        factors=fitted.factors,
        training=training,
        validations=validations,
        verdict=judge(
            found.estimate,
            fitted.structural,
            training,
            validations,
            call.diagnostics,
            nonlinear.choices,
            residual_findings,
            found.model.selection,
            data.prepared.bandwidth,
            unphysical(robot, found.estimate),
            mass_findings(robot, found.estimate, fitted.regression),
        ),
        diagnostics=call.diagnostics,
        preparation=data.prepared.describe() | {"rows": replace(data.choice, rows=data.rows).describe()},
        log_summary=data.summary.describe() | found.stiffness,
        provenance=provenance(
            log, validation, data.settings.seed, time.perf_counter() - started, needs_of(call.settings)
        ),
        truth=truth,
        shapes=found.shapes,
        choices=nonlinear.choices,
        residual_findings=residual_findings,
        selection=found.model.selection,
    )


def _of_commands(settings: Settings, log: Log) -> Settings:
    """The settings; a log of commands chooses its model where that is asked for, and not by default.

    The controller answers whatever the model lacks, so that couplings, zeros and forms of friction imitate errors of
    its law and its delay, and make the simulated robot follow its commands worse: aliengo_pace 40 in place of 4.5 mrad,
    z1_pace 64 in place of 21 (`dynid replay`).
    """
    by_default = settings.terms is None and settings.automatic is None
    return replace(settings, automatic=False) if log.mapping.commanded and by_default else settings


def _with_torque(
    robot: RobotModel,
    log: Log,
    validation: Log | None,
    settings: Settings,
    threads: int,
    diagnostics: Diagnostics,
) -> tuple[RobotModel, Log, Log | None]:
    """Robot and logs whose commands stand in for the effort where none was measured, at their gains and delay."""
    robot = with_found_servo(robot, log, settings.seed, threads, diagnostics)
    return (
        robot,
        replace(log, robot=robot),
        None if validation is None else replace(validation, robot=robot),
    )


def _without_unexplained(log: Log, diagnostics: Diagnostics) -> Log:
    """The log with joints held whose effort at rest is not the torque of what they carry."""
    joints = unexplained_at_rest(log)
    for name in joints:
        diagnostics.warn(
            "joint-at-rest",
            f"joint '{name}' never moved: its friction and rotor inertia are not identified; its effort is not the "
            "torque of what it carries, so that a brake or friction held it, or its encoder is dead",
        )
    return log.with_held({name: log.resting[name] for name in joints}, UNEXPLAINED)


def _without_gripping(log: Log, validation: Log | None, diagnostics: Diagnostics) -> tuple[Log, Log | None]:
    """The logs without the efforts of joints of a hand that are not the torque of their motion."""
    joints = unexplained_hands(log)
    for name in joints:
        diagnostics.warn(
            "joint-unmeasured",
            f"joint '{name}' is one of a hand, and its effort is not the torque of its motion, as where it grips: the "
            "motion is used, the equation is left out, so that its friction and rotor inertia are not identified",
        )
    others = None if validation is None else validation.without_efforts(joints)
    return log.without_efforts(joints), others
