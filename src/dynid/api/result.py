"""A result as users hold it: an identification that shows itself, predicts, plots and exports."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place, UsageError
from dynid.base.parallel import Progress
from dynid.base.records import Overview, counted, listed
from dynid.base.tables import data_frame
from dynid.dynamics import Dynamics
from dynid.dynamics.observer import CUTOFF, Thresholds
from dynid.estimate.estimator import Word, base_verdicts
from dynid.exporters.export import Exported, export
from dynid.exporters.model import ExportModel
from dynid.identification import pipeline
from dynid.identification.settings import Settings
from dynid.lab.torque_replay import WINDOW, TorqueReplay, replay_torque
from dynid.log import read as files
from dynid.log.clocks import Selection
from dynid.log.log import ChannelMap
from dynid.log.read import Log, as_log
from dynid.report.timeline import torque_plot
from dynid.robot.load import locked
from dynid.robot.model import RobotModel
from dynid.run import store
from dynid.run.result import Identification, Validation
from dynid.run.tables import parameter_columns, score_columns
from dynid.run.validation import validate as score_on
from dynid.terms.exports import Reads
from dynid.terms.term import states
from dynid.verbs.external_torque import ExternalTorque, external_torque, thresholds

# Logs as users hand them over: logs with effort, or data frames of them.


def measured(log: Any, robot: RobotModel, channels: tuple[str, ...]) -> Log:
    """A log or data frame as a log; raises UsageError for something else than a robot, or a log without effort."""
    if not isinstance(robot, RobotModel):
        raise UsageError(
            "not-a-robot",
            found=f"{type(robot).__name__} in place of a robot",
            expected="a robot model",
            do="open a description with dynid.load_robot(path)",
        )
    opened = as_log(log, robot, channels)
    if not opened.has_effort:
        raise UsageError(
            "no-effort",
            found=f"the log {opened.tables[0].path} without effort",
            expected="torque or current of every joint",
            do="give columns tau_<joint>, a mapping with effort, or tau to Log.from_arrays",
        )
    return opened


class Result(Identification):
    """What `dynid.identify` and `dynid.load` return: model, estimate, scores, verdict.

    The fields are those of `Identification`; what is here works on them.
    """

    @staticmethod
    def of(found: Identification) -> Result:
        """The same identification as a result."""
        return Result(**{one.name: getattr(found, one.name) for one in fields(found)})

    @property
    def parameters(self) -> Any:
        """Base and full parameters with 95 % intervals and verdicts, as a data frame.

        Of polars or pandas, whichever is loaded or installed, else of Arrow. Columns: docs/run-folder.md,
        `parameters.parquet`.
        """
        return data_frame(parameter_columns(self))

    @property
    def scores(self) -> Any:
        """Torque errors by set of data and joint, as a data frame like `parameters`; see docs/conventions.md."""
        return data_frame(score_columns(self))

    @cached_property
    def model(self) -> Dynamics:
        """The robot's dynamics with the identified parameters: inverse and forward dynamics, kinematics, derivatives.

        What exports hold, without effects of the measurement (`predict` has those) and without what is named in
        `model.left_out`. Methods and conventions: docs/model.md.
        """
        return ExportModel.of_run(self).dynamics

    def external_torque(self, log: Any, *, cutoff: float = CUTOFF) -> tuple[ExternalTorque, ...]:
        """Torque from outside on the joints along every trajectory of a log or data frame, by `model.external_torque`.

        cutoff: Hz, of the observer.    Raises UsageError for a log without effort or of other joints.
        """
        return external_torque(self.model, measured(log, self.robot, self.terms.channels()), cutoff)

    def replay(self, log: Any, *, window: float = WINDOW) -> TorqueReplay:
        """A log replayed by exported files: MJCF in MuJoCo, URDF in pinocchio, beside the description's own.

        window: s of motion under measured torque.
        Raises UsageError for a window that is not positive, UnfitDataError for a log without one.
        """
        return replay_torque(self, measured(log, self.robot, self.terms.channels()), window=window)

    def thresholds(self, log: Any, rate: float = 0.01, *, cutoff: float = CUTOFF) -> Thresholds:
        """Thresholds for external torque by joint and speed, which a share `rate` of free motion's samples crosses.

        log: a log or data frame of motion that was not fitted and that nothing touched; the rate holds for motion like
        it.    cutoff: Hz, of the observer.
        Raises UnfitDataError for a log that is too short for the rate.
        """
        return thresholds(self.model, measured(log, self.robot, self.terms.channels()), rate, cutoff)

    def predict(
        self,
        q: npt.ArrayLike,
        dq: npt.ArrayLike,
        ddq: npt.ArrayLike,
        *,
        rate: float | None = None,
        temperature: npt.ArrayLike | None = None,
        extra: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Float:
        """Torque Y(q, dq, ddq) theta at the joints; theta is what exports write.

        All effects that were identified are in it, also those of the measurement, as in the scores. Sensors of motors
        would show u of N' u, with N the drives' transmission.

        Without `rate` every state is taken by itself: a delay shifts time, so that the torque is that of the instant,
        and an elastic joint is bent by its torque as it stands; what follows from the change of the torque along time
        is left out with a warning.

        Parameters
        ----------
        q, dq, ddq : (T, n) or (n,) array, SI units
            Positions, velocities and accelerations of states, or of one.
        rate : float, Hz, optional
            Samples a second where the states follow each other in time, for models with a delay of the torque or
            elastic joints.
        temperature : (T, n) array, degC, optional
            Of the drives, where the model reads it.
        extra : mapping of str to (T,) array, optional
            Channels by name, where the model reads them.

        Returns
        -------
        array of the shape of q, N m (N)
            Torque at the joints.

        Raises
        ------
        UsageError
            For arrays of another shape, without a channel that the model reads, or a rate that is not positive.

        Warns
        -----
        UserWarning
            If effects of the torque's change along time are left out.

        """
        samples, shape = states(
            self.robot, self.terms, q, dq, ddq, rate=rate, temperature=temperature, extra=extra
        )
        parameters = self.estimate.parameters
        parts = self.terms.with_values(self.robot, parameters)
        left_out = [
            term.name
            for term, values in parts
            if rate is None and Reads.RATE in term.traits.reads and values.any()
        ]
        if left_out:
            warnings.warn(
                f"states without a rate: the torque's change along time is left out ({', '.join(left_out)}); "
                "pass rate=HZ for consecutive states",
                stacklevel=2,
            )
        return self.terms.torque(self.robot, samples, parameters).reshape(shape)

    def export(
        self,
        path: str | Path,
        kind: str | None = None,
        *,
        source: str | Path | None = None,
        feasible: bool = False,
        allow_unphysical: bool = False,
        thresholds: Thresholds | None = None,
        force: bool = False,
        diagnostics: Diagnostics | None = None,
    ) -> Exported:
        """Writes the model for another program: URDF, MJCF, SDF, C, JSON or a table; see `dynid.export` for more.

        kind: the format; None = by the suffix of `path`.    source: URDF or MJCF to change in place.
        feasible: the closest physically consistent parameters, where these are not.
        allow_unphysical: write them as they are.    thresholds: of external torque, for C code to hold as well.
        force: replace files.    diagnostics: receives the warnings.

        Raises RefusedError for what exists or is not physical, UsageError for an unknown kind.
        """
        return export(
            self,
            Path(path),
            kind,
            source=None if source is None else Path(source),
            feasible=feasible,
            allow_unphysical=allow_unphysical,
            thresholds=thresholds,
            force=force,
            diagnostics=diagnostics,
        )

    def plot(self) -> Any:
        """Measured and predicted torque by joint, as a plotly figure: of a held-out log where there is one."""
        shown = [one for one in self.validations if one.residuals is not None]
        return torque_plot(self, shown[0] if shown else self.training)

    def overview(self) -> Overview:
        """What is shown of the result: verdict, errors by joint, rank, weak spots."""
        scores = self._judged().scores
        verdicts = [one.word for one in base_verdicts(self.estimate, self.factors)]
        words = [f"{verdicts.count(word)} {word}" for word in Word if word in verdicts]
        by_joint = [
            f"{name} {100 * one:.3g} %" for name, one in zip(scores.joint_names, scores.relative, strict=True)
        ]
        weak = [one.title for one in self.verdict.findings if one.level not in ("good", "note")]
        return Overview(
            f"Identification of '{self.robot.name}' ({counted(self.robot.n, 'joint')}) from {self._log()}",
            (
                (self.verdict.level.upper(), self.verdict.headline),
                ("torque error", f"{100 * scores.total_relative:.3g} % on {scores.origin}, "
                    f"{100 * self.training.scores.total_relative:.3g} % in training"),
                ("by joint", listed(by_joint, 12)),
                ("rank", f"{self.estimate.base.rank} of {self.structural.rank} base parameters, condition number "
                    f"{self.estimate.base.condition:.3g}; {', '.join(words)}"),
                ("model", " + ".join(dict.fromkeys(term.name for term in self.terms))),
                ("weak spots", "; ".join(weak) or "none"),
                ("more", ".parameters, .scores, .verdict.findings, .predict(q, dq, ddq), .model, .plot(), .export()"),
            ),
            ("joint", "error, %", "r.m.s.", "unit", "R^2"),
            tuple(
                (
                    name,
                    f"{100 * scores.relative[j]:.3g}",
                    f"{scores.rms[j]:.3g}",
                    "N" if self.robot.prismatic[j] else "N m",
                    f"{scores.r2[j]:.4f}",
                )
                for j, name in enumerate(scores.joint_names)
            ),
        )  # fmt: skip

    def __repr__(self) -> str:
        return self.overview().text()

    def _repr_html_(self) -> str:
        return self.overview().html()

    def _judged(self) -> Validation:
        # What the model was judged on: data that was not fitted, where there is some.
        return self.validations[0] if self.validations else self.training

    def _log(self) -> str:
        logs: Any = self.provenance.get("logs", {})
        found: Any = self.log_summary.get("trajectories", ())
        seconds = float(np.sum([one["end_s"] - one["start_s"] for one in found])) if found else 0.0
        return f"{listed([Path(str(one)).name for one in logs], 2) or 'a log'} ({seconds:.4g} s)"


# The main verbs as users call them: logs may be data frames, and results have methods.


def identify(
    robot: RobotModel,
    log: Any,
    settings: Settings | None = None,
    *,
    validation: Any = None,
    truth: Mapping[str, float] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    diagnostics: Diagnostics | None = None,
    accept: Sequence[str] = (),
) -> Result:
    """Identifies the robot's dynamics, tau = Y(q, dq, ddq) theta, and judges the model on data that was not fitted.

    log: a Log, or a data frame (pandas, polars, Arrow) with dynid's own column names.
    settings: model, equations, method, signals; None = the default.
    validation: a log or data frame that is held out; without one, contiguous blocks of the log are held out in turn.
    truth: parameter values by name, for simulated robots.    threads: of passes over the log and of
    simulations; None = one, and all processors; results do not depend on it.
    progress: called with (stage, seconds of data done).    diagnostics: receives the warnings, which the result holds
    as well.
    accept: codes of claims that are to warn, not to stop, beside those of the settings.

    Raises UnfitDataError if the log cannot support an identification or physics speaks against it, InputError if it
    cannot be read, UsageError for an accepted code that is not found.
    """
    channels = (settings or Settings()).model.channels()
    found = pipeline.identify(
        robot,
        measured(log, robot, channels),
        settings,
        validation=None if validation is None else measured(validation, robot, channels),
        truth=truth,
        threads=threads,
        progress=progress,
        diagnostics=diagnostics,
        accept=accept,
    )
    return Result.of(found)


def validate(
    result: Identification,
    log: Any,
    diagnostics: Diagnostics | None = None,
    threads: int | None = None,
    *,
    accept: Sequence[str] = (),
) -> Validation:
    """Scores an identified model on a log or data frame, filtered as in the identification.

    A log that the model was fitted on is scored under the name of training data, with a warning.
    accept: codes of claims that are to warn, not to stop, beside those accepted in the identification.
    Raises UnfitDataError if the log has no usable sample or physics speaks against it, UsageError for a code given here
    that is not found.
    """
    return score_on(
        result, measured(log, result.robot, result.terms.channels()), diagnostics, threads, accept=accept
    )


def load(folder: str | Path) -> Result:
    """Reads a run folder back.

    Raises InputError if it is not one or is damaged, ResourceError if it cannot be read.
    """
    return Result.of(store.load(Path(folder)))


# Logs from files as users open them: columns that nobody named are found where nothing is left to ask.


def read_log(
    paths: str | Path | Sequence[str | Path],
    robot: RobotModel,
    mapping: ChannelMap | Mapping[str, Any] | None = None,
    select: Sequence[Selection | str] = (Selection(),),
    extra: Sequence[str] = (),
    topics: Sequence[str] = (),
    *,
    answers: Mapping[str, str] | None = None,
) -> Log:
    """Opens one or several logs of a robot, files or folders of any format that has a reader.

    mapping: which column measures what, also as the plain data of an experiment's [log] table;
    None = dynid's own column names (t, traj, q_<joint>, dq_<joint>, tau_<joint>), else as `dynid init` finds them by
    their names and the motion, which `log.remarks` say.    answers: to what that leaves open, by key.
    select: trajectories to use, by name or glob, in whole or in part.
    extra: further columns that terms of the model read, for a log with dynid's own column names.
    topics: of bags, where the joint states are; those of the mapping, or else the only fitting one, where not given.

    Raises InputError for files, columns or trajectories that do not exist or cannot be read, and for columns whose
    names leave something open.
    """
    unknown = None
    if not answers:
        try:
            return files.read_log(paths, robot, mapping, select, extra, topics)
        except InputError as error:
            if mapping is not None or error.identifier != "no-mapping":
                raise
            unknown = error
    from dynid.layouts.propose import found_tables  # here alone: most logs are read by a mapping

    logs = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    tables, remark = found_tables(
        robot, robot.source or "ROBOT", logs, answers or {}, unknown, with_effort=False
    )
    of_robot = tables.get("robot", {})
    if of_robot.keys() & {"drive_gain", "gear_ratio"} or tables.get("drive"):
        raise InputError(
            "no-mapping",
            found="efforts, commands or angles that take gains of the drives or ratios of gears to be those of joints",
            expected="torque and angles of joints, or a robot that has the constants",
            do=f"write an experiment file by `dynid init {robot.source or 'ROBOT'} {logs[0]}`, and identify with it",
            place=Place(file=str(logs[0])),
        )
    remarks = Diagnostics([remark])
    held = of_robot.get("lock", {})
    opened = locked(robot, held, "as its column says", remarks)
    log = files.read_log(paths, opened, tables["log"], select, extra, topics)
    return replace(log, own_remarks=(*log.own_remarks, *remarks))
