"""Results as users get them: an identification that shows itself, predicts, plots and exports."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.api.plots import plot
from dynid.api.publish import WRITERS, bibtex, table_frame, works_to_cite, write_table
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
from dynid.robot.load import locked, with_fixed_base
from dynid.robot.model import RobotModel
from dynid.run import store
from dynid.run.result import Identification, Validation
from dynid.run.tables import parameter_columns, score_columns
from dynid.run.validation import validate as score_on
from dynid.terms.exports import Reads
from dynid.terms.term import states
from dynid.verbs.external_torque import ExternalTorque, external_torque, thresholds

# Input: logs with effort, or data frames.


def measured(log: Any, robot: RobotModel, channels: tuple[str, ...]) -> Log:
    """Log or data frame as a log.

    Parameters
    ----------
    log : Log or data frame
        Log.
    robot : RobotModel
        Robot.
    channels : tuple of str
        Further columns that the model reads.

    Returns
    -------
    Log
        Log with effort.

    Raises
    ------
    UsageError
        For something else than a robot, or a log without effort.

    """
    if not isinstance(robot, RobotModel):
        raise UsageError(
            "not-a-robot",
            found=f"{type(robot).__name__} in place of a robot",
            expected="a robot model",
            do="load it with dynid.load_robot(path)",
        )
    opened = as_log(log, robot, channels)
    if not opened.has_effort:
        raise UsageError(
            "no-effort",
            found=f"the log {opened.tables[0].path} without effort",
            expected="torque or current of every joint",
            do="add columns tau_<joint>, a mapping with effort, or tau to Log.from_arrays",
        )
    return opened


class Result(Identification):
    """Result of `dynid.identify` and `dynid.load`: model, estimate, scores and verdict.

    The fields are those of `Identification`; the methods here use them.
    """

    @staticmethod
    def of(identification: Identification) -> Result:
        """The same identification as a Result."""
        return Result(**{item.name: getattr(identification, item.name) for item in fields(identification)})

    @property
    def parameters(self) -> Any:
        """Base and full parameters with 95 % intervals and verdicts, as a data frame.

        The data frame is of polars or pandas, whichever is loaded or installed, otherwise of Arrow. Columns:
        docs/run-folder.md, `parameters.parquet`.
        """
        return data_frame(parameter_columns(self))

    @property
    def scores(self) -> Any:
        """Torque errors by data set and joint, as a data frame like `parameters`; see docs/conventions.md."""
        return data_frame(score_columns(self))

    @cached_property
    def model(self) -> Dynamics:
        """Dynamics with the identified parameters: inverse and forward dynamics, kinematics, derivatives.

        It contains what exports contain: no effects of the measurement (`predict` includes those), and nothing that is
        named in `model.left_out`. Methods and conventions: docs/model.md.
        """
        return ExportModel.of_run(self).dynamics

    def external_torque(self, log: Any, *, cutoff: float = CUTOFF) -> tuple[ExternalTorque, ...]:
        """External torque on the joints along every trajectory of a log, by `model.external_torque`.

        Parameters
        ----------
        log : Log or data frame
            Log with effort.
        cutoff : float, Hz
            Cutoff frequency of the observer.

        Returns
        -------
        tuple of ExternalTorque
            One per trajectory.

        Raises
        ------
        UsageError
            For a log without effort or of other joints.

        """
        return external_torque(self.model, measured(log, self.robot, self.terms.channels()), cutoff)

    def replay(self, log: Any, *, window: float = WINDOW) -> TorqueReplay:
        """Replay a log with exported files: MJCF in MuJoCo and URDF in pinocchio, compared with the prior's.

        Parameters
        ----------
        log : Log or data frame
            Log with effort.
        window : float, s
            Duration of motion under measured torque.

        Returns
        -------
        TorqueReplay
            Simulated motion and torque.

        Raises
        ------
        UsageError
            For a window that is not positive.
        UnfitDataError
            For a log without such a window.

        """
        return replay_torque(self, measured(log, self.robot, self.terms.channels()), window=window)

    def thresholds(self, log: Any, rate: float = 0.01, *, cutoff: float = CUTOFF) -> Thresholds:
        """Thresholds of external torque by joint and speed, which a share `rate` of samples of free motion exceeds.

        Parameters
        ----------
        log : Log or data frame
            Motion without contact that was not fitted; the rate is valid for similar motion.
        rate : float
            Share of samples.
        cutoff : float, Hz
            Cutoff frequency of the observer.

        Returns
        -------
        Thresholds
            Thresholds.

        Raises
        ------
        UnfitDataError
            If the log is too short for the rate.

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
        """Predict joint torque Y(q, dq, ddq) theta with the parameters that exports write.

        All identified effects are included, also those of the measurement, as in the scores. With the drives'
        transmission N, motor sensors would show u of N' u.

        Without `rate` every state is taken alone: a delay is ignored, and an elastic joint is bent by its torque as it
        stands. Effects of the change of torque in time are left out with a warning.

        Parameters
        ----------
        q, dq, ddq : array_like, shape (T, n) or (n,), SI units
            Positions, velocities and accelerations.
        rate : float, Hz, optional
            Sampling rate if the states are consecutive samples, for models with a delay of the torque or elastic
            joints.
        temperature : array_like, shape (T, n), degrees C, optional
            Temperature of the drives, if the model reads it.
        extra : mapping of str to array_like, shape (T,), optional
            Channels by name, if the model reads them.

        Returns
        -------
        ndarray, shape of q, N m (N)
            Joint torque.

        Raises
        ------
        UsageError
            For arrays of another shape, a missing channel, or a rate that is not positive.

        Warns
        -----
        UserWarning
            If the motion leaves the recorded range or the expected error grows beyond what the model serves, or if
            effects of the change of torque in time are left out.

        """
        samples, shape = states(
            self.robot, self.terms, q, dq, ddq, rate=rate, temperature=temperature, extra=extra
        )
        if self.forecast is not None and (outside := self.forecast.outside(samples)):
            warnings.warn(f"this motion is not like the recorded one: {outside}", stacklevel=2)
        parameters = self.estimate.parameters
        parts = self.terms.with_values(self.robot, parameters)
        left_out = [
            term.name
            for term, values in parts
            if rate is None and Reads.RATE in term.traits.reads and values.any()
        ]
        if left_out:
            warnings.warn(
                f"terms that depend on the change of torque in time are left out ({', '.join(left_out)}): "
                "pass rate=HZ if the states are consecutive samples",
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
        """Write the model as URDF, MJCF, SDF, C or JSON, or its parameters as CSV, LaTeX, Markdown or Excel.

        `dynid.export` can do more.

        Parameters
        ----------
        path : str or Path
            File to write.
        kind : str, optional
            Format; None = by the suffix of `path`.
        source : str or Path, optional
            URDF or MJCF to change in place.
        feasible : bool
            Write the closest physically consistent parameters if these are not.
        allow_unphysical : bool
            Write the parameters as they are, even if they are not physically consistent.
        thresholds : Thresholds, optional
            Thresholds of external torque to include in C code.
        force : bool
            Replace files.
        diagnostics : Diagnostics, optional
            Receives the warnings.

        Returns
        -------
        Exported
            Written files.

        Raises
        ------
        RefusedError
            If a file exists, or the parameters are not physical.
        UsageError
            For an unknown kind.

        """
        if kind == "table" or (kind is None and Path(path).suffix.lower() in WRITERS):
            return Exported((write_table(self, path, force=force),))
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

    def plot(self, kind: str = "torque", *, library: str = "plotly") -> Any:
        """Figure with a panel per joint, of a held-out log if there is one.

        Parameters
        ----------
        kind : {"torque", "residuals", "friction", "parameters"}
            Measured and predicted torque over time; their difference; friction over speed with its 95 % interval and
            the measured torque less all other predicted torque; values of links and joints beside the robot file's.
        library : {"plotly", "matplotlib"}
            For notebooks, or for papers: `figure.savefig("friction.pdf")`.

        Returns
        -------
        plotly.graph_objects.Figure or matplotlib.figure.Figure
            The figure.

        Raises
        ------
        UsageError
            For another kind or library.
        UnfitDataError
            For a run without residuals.
        ResourceError
            Without the library.

        """
        return plot(self, kind, library)

    def table(self, table: str | None = None) -> Any:
        """Parameters for a publication, as a data frame like `parameters`.

        Columns: table, joint, link, symbol, value, half_width95 (nan = not determined by the data), unit, known.
        `result.export("params.tex")` writes the same as LaTeX; `.csv`, `.md` and `.xlsx` likewise.

        Parameters
        ----------
        table : {"base", "links", "joints"}, optional
            Base parameters; mass, centre of mass and inertia of links; friction and rotors of joints. None = all.

        Returns
        -------
        data frame
            The table.

        Raises
        ------
        UsageError
            For another table.

        """
        return table_frame(self, table)

    def cite(self) -> str:
        """BibTeX of dynid and of the methods that the run used."""
        return bibtex(works_to_cite(self))

    def overview(self) -> Overview:
        """Summary for display: verdict, errors per joint, rank, weak spots."""
        scores = self._judged_validation().scores
        verdicts = [item.word for item in base_verdicts(self.estimate, self.factors)]
        words = [f"{verdicts.count(word)} {word}" for word in Word if word in verdicts]
        by_joint = [
            f"{name} {100 * item:.3g} %"
            for name, item in zip(scores.joint_names, scores.relative, strict=True)
        ]
        weak = [item.title for item in self.verdict.findings if item.level not in ("good", "note")]
        return Overview(
            f"Identification of '{self.robot.name}' ({counted(self.robot.n, 'joint')}) from {self._log_text()}",
            (
                (self.verdict.level.upper(), self.verdict.headline),
                ("torque error", f"{100 * scores.total_relative:.3g} % on {scores.origin}, "
                    f"{100 * self.training.scores.total_relative:.3g} % in training"),
                ("per joint", listed(by_joint, 12)),
                ("rank", f"{self.estimate.base.rank} of {self.structural.rank} base parameters, condition number "
                    f"{self.estimate.base.condition:.3g}; {', '.join(words)}"),
                ("model", " + ".join(dict.fromkeys(term.name for term in self.terms))),
                ("weak spots", "; ".join(weak) or "none"),
                ("more", ".parameters, .scores, .verdict.findings, .predict(q, dq, ddq), .model, .plot(), .table(), "
                    ".export()"),
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

    def _judged_validation(self) -> Validation:
        # Data on which the model was judged: held out if there is any.
        return self.validations[0] if self.validations else self.training

    def _log_text(self) -> str:
        logs: Any = self.provenance.get("logs", {})
        trajectories: Any = self.log_summary.get("trajectories", ())
        seconds = (
            float(np.sum([item["end_s"] - item["start_s"] for item in trajectories])) if trajectories else 0.0
        )
        return f"{listed([Path(str(item)).name for item in logs], 2) or 'a log'} ({seconds:.4g} s)"


# Main functions: logs may be data frames, and results have methods.


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
    """Identify the robot's dynamics, tau = Y(q, dq, ddq) theta, and judge the model on data that was not fitted.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    log : Log or data frame
        Log, or a data frame (pandas, polars, Arrow) with dynid's own column names.
    settings : Settings, optional
        Model, equations, method and signals; None = the default.
    validation : Log or data frame, optional
        Held-out log; without it contiguous blocks of the log are held out in turn.
    truth : mapping of str to float, optional
        Parameter values by name, for simulated robots.
    threads : int, optional
        Threads of passes over the log and of simulations; None = one, and all processors. Results do not depend on it.
    progress : callable, optional
        Called with (stage, seconds of data done).
    diagnostics : Diagnostics, optional
        Receives the warnings, which the result contains too.
    accept : sequence of str
        Codes of claims that only warn instead of stopping, in addition to those of the settings.

    Returns
    -------
    Result
        Model, scores and verdict.

    Raises
    ------
    UnfitDataError
        If the log cannot support an identification, or contradicts physics.
    InputError
        If the log cannot be read.
    UsageError
        For an accepted code that does not occur.

    """
    channels = (settings or Settings()).model.channels()
    identified = pipeline.identify(
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
    return Result.of(identified)


def validate(
    result: Identification,
    log: Any,
    diagnostics: Diagnostics | None = None,
    threads: int | None = None,
    *,
    accept: Sequence[str] = (),
) -> Validation:
    """Score an identified model on a log, filtered as in the identification.

    A log that the model was fitted on is scored as training data, with a warning.

    Parameters
    ----------
    result : Identification
        Identified model.
    log : Log or data frame
        Log.
    diagnostics : Diagnostics, optional
        Receives the warnings.
    threads : int, optional
        Threads; None = one.
    accept : sequence of str
        Codes of claims that only warn instead of stopping, in addition to those accepted in the identification.

    Returns
    -------
    Validation
        Scores and residuals.

    Raises
    ------
    UnfitDataError
        If the log has no usable sample, or contradicts physics.
    UsageError
        For a code given here that does not occur.

    """
    return score_on(
        result,
        measured(log, with_fixed_base(result.robot), result.terms.channels()),
        diagnostics,
        threads,
        accept=accept,
    )


def load(folder: str | Path) -> Result:
    """Read a run folder.

    Parameters
    ----------
    folder : str or Path
        Run folder.

    Returns
    -------
    Result
        Result.

    Raises
    ------
    InputError
        If it is not a run folder or is damaged.
    ResourceError
        If it cannot be read.

    """
    return Result.of(store.load(Path(folder)))


# Logs from files, with detection of unnamed columns if it leaves no question.


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
    """Open one or several logs of a robot, files or folders of any supported format.

    Parameters
    ----------
    paths : str, Path or sequence of these
        Files or folders.
    robot : RobotModel
        Robot.
    mapping : ChannelMap or mapping, optional
        Which column measures what, also as the plain data of an experiment's [log] table. None = dynid's own column
        names (t, traj, q_<joint>, dq_<joint>, tau_<joint>), otherwise as `dynid init` detects them from names and
        motion and `log.remarks` reports.
    select : sequence of Selection or str
        Trajectories to use, by name or glob, in whole or in part.
    extra : sequence of str
        Further columns that terms of the model read, for a log with dynid's own column names.
    topics : sequence of str
        Topics of a bag with the joint states; without them those of the mapping, or the only suitable one.
    answers : mapping of str to str, optional
        Answers to questions that the detection leaves, by key.

    Returns
    -------
    Log
        Log.

    Raises
    ------
    InputError
        For files, columns or trajectories that do not exist or cannot be read, and for columns whose meaning stays
        unclear.

    """
    unknown = None
    if not answers:
        try:
            return files.read_log(paths, robot, mapping, select, extra, topics)
        except InputError as error:
            if mapping is not None or error.identifier != "no-mapping":
                raise
            unknown = error
    from dynid.layouts.propose import found_tables  # imported here, since most logs have a mapping

    logs = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    tables, remark = found_tables(
        robot, robot.source or "ROBOT", logs, answers or {}, unknown, with_effort=False
    )
    of_robot = tables.get("robot", {})
    if of_robot.keys() & {"drive_gain", "gear_ratio"} or tables.get("drive"):
        raise InputError(
            "no-mapping",
            found="effort, commands or angles that need drive gains or gear ratios to refer to joints",
            expected="joint torque and joint angles, or a robot with these constants",
            do=f"write an experiment file with `dynid init {robot.source or 'ROBOT'} {logs[0]}`, and identify with it",
            place=Place(file=str(logs[0])),
        )
    remarks = Diagnostics([remark])
    locks = of_robot.get("lock", {})
    opened = locked(robot, locks, "constant in the log", remarks)
    log = files.read_log(paths, opened, tables["log"], select, extra, topics)
    return replace(log, own_remarks=(*log.own_remarks, *remarks))
