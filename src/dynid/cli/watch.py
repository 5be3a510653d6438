"""dynid watch: follow a growing log and print the estimate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.base.units import with_interval
from dynid.cli.common import (
    ConfigOption,
    RobotArgument,
    claim_output,
    print_diagnostics,
    say,
    set_results,
)
from dynid.cli.options import RobotOptions, with_robot

if TYPE_CHECKING:
    from dynid.base.arrays import Float
    from dynid.base.diagnostics import Diagnostics
    from dynid.excitation.design import Information
    from dynid.fleet.stream import StreamRows
    from dynid.fleet.watch import Watcher, WatchSettings
    from dynid.identification.experiment import Experiment
    from dynid.robot.model import RobotModel


class Filter(StrEnum):
    """Recursive estimator."""

    RLS = "rls"
    EKF = "ekf"
    UKF = "ukf"
    CDKF = "cdkf"


# Endings of logs that are followed line by line while they grow; others are read as they are.
TEXT = (".csv", ".txt", ".tsv", "")
# Length of the next motion, s; share by which its torque may exceed the estimated torque.
NEXT_SECONDS, MARGIN = 6.0, 0.1
METHODS = {
    Filter.RLS: "Recursive least squares",
    Filter.EKF: "Extended Kalman filter",
    Filter.UKF: "Unscented Kalman filter",
    Filter.CDKF: "Central-difference Kalman filter",
}


@with_robot
def command(
    robot: RobotArgument,
    log: Annotated[
        str,
        typer.Argument(
            help="Growing CSV file, - for standard input, rtde://HOST of a UR robot, or any other log.",
            metavar="LOG",
        ),
    ],
    config: ConfigOption = None,
    kind: Annotated[
        Filter, typer.Option("--filter", help="Recursive least squares, or a Kalman filter.")
    ] = Filter.RLS,
    memory: Annotated[
        float | None,
        typer.Option("--memory", min=0.01, help="Time after which the weight of a row falls to 1/e, s."),
    ] = None,
    excited: Annotated[
        bool, typer.Option("--excited", help="Forget only in directions that new rows excite.")
    ] = False,
    reset: Annotated[
        float | None,
        typer.Option("--reset", min=0.01, help="Time after which the covariance is reset, s."),
    ] = None,
    settle: Annotated[
        float, typer.Option("--settle", min=0.5, help="Motion before a Kalman filter starts, s.")
    ] = 10.0,
    every: Annotated[
        float, typer.Option("--every", min=0.0, help="Time of the log between reports, s.")
    ] = 5.0,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0.0, help="End after this time without a new row in the file, s."),
    ] = 2.0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="CSV file for the estimate over time; a page (.html) is written next to it."
        ),
    ] = None,
    precision: Annotated[
        float, typer.Option("--precision", help="Required relative precision of every base parameter.")
    ] = 0.05,
    following: Annotated[
        Path | None,
        typer.Option("--next", help="Folder for the next motion to record, if the precision is not reached."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="motion.toml of that motion. Default: a motion of 6 s.")
    ] = None,
    *,
    robot_options: RobotOptions,
) -> None:
    """Follow a growing CSV log (columns t, q_<joint>, tau_<joint>) and print how the estimate converges."""
    import sys

    import numpy as np

    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import InputError, Place
    from dynid.estimate.recursive import Forgetting
    from dynid.excitation.folder import check_output
    from dynid.fleet.rtde import rtde_rows
    from dynid.fleet.stream import watch_lines, watch_rows
    from dynid.fleet.watch import WatchSettings, precision_of
    from dynid.identification.experiment import Experiment
    from dynid.rows.automatic import AutomaticRows
    from dynid.rows.momentum import MomentumRows

    files = _files(out)
    if following is not None:
        claim_output(following, lambda: check_output(following, [robot], force=False))
    rtde = log.startswith("rtde://")
    if log != "-" and not rtde and not Path(log).exists():
        raise InputError("file-missing", found="no such file", expected="a CSV log", place=Place(file=log))
    diagnostics = Diagnostics()
    experiment = Experiment.read(config).with_robot(robot_options)
    model = experiment.robot(robot, diagnostics)
    rows = experiment.rows()
    far = np.inf
    settings = WatchSettings(
        terms=experiment.terms(),
        rows=MomentumRows() if isinstance(rows, AutomaticRows) else rows,
        forgetting=Forgetting(memory or far, "excited" if excited else "all", reset or far),
    )
    watcher = _watcher(model, kind, settings, settle)
    whole = log != "-" and not rtde and (Path(log).is_dir() or Path(log).suffix.lower() not in TEXT)
    if rtde:
        changes = watch_rows(watcher, rtde_rows(model, log))
    elif whole:
        changes = watch_rows(watcher, _logged(experiment, model, log, diagnostics))
    else:
        lines = sys.stdin if log == "-" else _growing(Path(log), wait)
        changes = watch_lines(watcher, _decoded(lines, log), "" if log == "-" else log)
    reported, enough, warned = -np.inf, False, whole
    for time in changes:
        warned = warned or _warn_of_load(watcher, kind)
        if not enough and precision_of(watcher, precision).enough:
            enough = True
            say(f"enough data: all base parameters are known to {100 * precision:g} % after {time:.2f} s")
        if time - reported >= every:
            _report(watcher, precision)
            reported = time
    if watcher.seconds > 0:
        _report(watcher, precision, whole=True)
        if files is not None:
            _write(files, watcher, METHODS[kind])
        if watcher.correlated:
            diagnostics.warn(
                "expected-intervals",
                f"the residuals of {', '.join(watcher.correlated)} depend on the motion, so they are not noise; "
                "correlated rows count as one, but intervals may still be too narrow",
            )
        if following is not None and not precision_of(watcher, precision).enough:
            _next(watcher, following, plan, precision)
    else:
        say("no row with a moving joint")
    print_diagnostics(diagnostics)


def _warn_of_load(watcher: Watcher, kind: Filter) -> bool:
    # Whether the Kalman filter has started, with a warning if its steps take longer than the rows of a live log.
    from dynid.base.diagnostics import Diagnostics
    from dynid.fleet.kalman import KalmanWatcher

    if not isinstance(watcher, KalmanWatcher):
        return True
    if watcher.filter is None:
        return False
    if watcher.load > 1:
        diagnostics = Diagnostics()
        diagnostics.warn(
            "watch-load",
            f"a step of --filter {kind.value} takes about {watcher.load:.2g} times as long as the rows it uses, so the "
            f"estimate falls behind a live log; use --filter {'rls' if kind is Filter.EKF else 'ekf or rls'}",
        )
        print_diagnostics(diagnostics)
    return True


def _logged(
    experiment: Experiment, model: RobotModel, log: str, diagnostics: Diagnostics
) -> Iterator[StreamRows]:
    from dynid.fleet.stream import StreamRows
    from dynid.identification.experiment import open_log

    opened = open_log(experiment, [log], model, [], diagnostics)
    for trajectory in opened.trajectories:
        for chunk in opened.chunks(trajectory):
            if chunk.tau is not None:
                yield StreamRows(chunk.t, chunk.q, chunk.tau, chunk.dq)


def _watcher(model: RobotModel, kind: Filter, settings: WatchSettings, settle: float) -> Watcher:
    if kind is Filter.RLS:
        from dynid.fleet.watch import Watcher

        return Watcher(model, settings)
    from dynid.fleet.kalman import KalmanSettings, KalmanWatcher

    return KalmanWatcher(model, KalmanSettings(kind.value, settle, watch=settings))


def _files(out: Path | None) -> tuple[Path, Path] | None:
    from dynid.base.errors import UsageError
    from dynid.base.files import refuse_existing

    if out is None:
        return None
    if out.suffix.lower() == ".html":
        raise UsageError(
            "watch-output", found=f"--out {out}", expected="a CSV file", do="the page is written next to it"
        )
    files = out, out.with_suffix(".html")
    for path in files:
        refuse_existing(path, "choose another --out")
    return files


def _report(watcher: Watcher, precision: float, whole: bool = False) -> None:
    from dynid.fleet.kalman import KalmanWatcher
    from dynid.fleet.watch import precision_of

    track, known = watcher.trajectory, precision_of(watcher, precision)
    value, std = track.value[-1], track.std[-1]
    text = (
        f"t = {track.t[-1]:.2f} s: {int(known.known.sum())} of {len(value)} base parameters within "
        f"{100 * precision:g} %, largest eigenvalue of P {track.eigenvalues[-1][0]:.3g}"
    )
    if not known.enough:
        text += f"; least precise: {known.weakest}, interval {known.share.max():.3g} times too wide"
    if isinstance(watcher, KalmanWatcher):
        state = (
            "settling"
            if watcher.filter is None
            else f"normalised innovation {watcher.consistency:.3g} (1 = as expected)"
        )
        text += f", {state}"
    say(text)
    if whole:
        set_results(
            lambda: {
                "seconds": watcher.seconds,
                "enough": known.enough,
                "base_parameters": [
                    {"formula": name, "value": x, "std": dx, "known": bool(there)}
                    for name, x, dx, there in zip(watcher.names, value, std, known.known, strict=True)
                ],
            }
        )
        for name, x, dx, there in zip(watcher.names, value, std, known.known, strict=True):
            say(f"  {with_interval(x, dx)}  {name}{'' if there else '  (not yet)'}")


def _next(watcher: Watcher, folder: Path, plan: Path | None, precision: float) -> None:
    from dynid.excitation.excite import Current, bounds_of, motion_of
    from dynid.excitation.folder import checks_of, plan_html, write_plan
    from dynid.excitation.settings import MotionSettings, MotionTable, read_plan_file

    short = MotionSettings(motion=MotionTable(seconds=NEXT_SECONDS))
    settings = short if plan is None else read_plan_file(plan)
    robot = watcher.robot
    information, theta = information_left(watcher, precision)
    made = motion_of(settings, information, bounds_of(robot, settings, Current(information, theta, MARGIN)))
    say(checks_of(made).headline)
    for path in write_plan(made, folder, settings, plan_html(made)):
        say(f"written: {path}")


def _write(files: tuple[Path, Path], watcher: Watcher, method: str) -> None:
    from dynid.fleet.page import Followed, write_trajectory_page
    from dynid.log.own_columns import write_log

    table, page = files
    track = watcher.trajectory
    columns = {f"value {name}": track.value[:, i] for i, name in enumerate(track.names)}
    columns |= {f"std {name}": track.std[:, i] for i, name in enumerate(track.names)}
    columns |= {"eigenvalue_greatest": track.eigenvalues[:, 0], "eigenvalue_least": track.eigenvalues[:, -1]}
    write_log(table, track.t, columns)
    model = watcher.settings.terms.columns(watcher.robot)
    write_trajectory_page(page, Followed(watcher.robot, model, watcher.base, track, method, watcher.seconds))
    say(f"estimate over time: {table}, {page}")


def _decoded(lines: Iterable[str], name: str) -> Iterator[str]:
    from dynid.base.errors import InputError, Place

    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise InputError(
            "encoding",
            found="bytes that are not UTF-8 text",
            expected="a CSV log that grows",
            do="use 'dynid identify' for other kinds of files",
            place=Place(file="standard input" if name == "-" else name),
        ) from error


def _growing(path: Path, wait: float) -> Iterator[str]:
    # Another program still writes to the file, so the last line counts only when it is complete.
    from time import monotonic, sleep

    with path.open(encoding="utf-8") as file:
        rest, latest = "", monotonic()
        while True:
            text = file.readline()
            if text:
                rest, latest = rest + text, monotonic()
                if rest.endswith("\n"):
                    yield rest
                    rest = ""
            elif monotonic() - latest >= wait:
                if rest:
                    yield rest
                return
            else:
                sleep(0.05)


def information_left(watcher: Watcher, asked: float) -> tuple[Information, Float]:
    """Criterion of the next motion, and the present estimate (p,) with dependent parameters 0.

    Raises UnfitDataError if the base parameters are not those of torque rows.
    """
    import numpy as np

    from dynid.excitation.plan import information_known
    from dynid.fleet.watch import precision_of

    robot, base = watcher.robot, watcher.base
    spread = watcher.spread if len(watcher.spread) == robot.n else np.full(robot.n, watcher.variance**0.5)
    information = information_known(
        robot,
        watcher.settings.terms,
        base,
        watcher.estimate.root[:-1, :-1] / watcher.variance**0.5,
        spread,
        watcher.rows_a_second,
        precision_of(watcher, asked).asked,
    )
    theta = np.zeros(len(base.names))
    theta[base.independent] = watcher.trajectory.value[-1]
    return information, theta
