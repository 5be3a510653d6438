"""dynid watch: follow a growing log and print the estimate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.cli.common import ConfigOption, RobotArgument, RootOption, print_diagnostics, say

if TYPE_CHECKING:
    from dynid.watch import Watcher


def command(
    robot: RobotArgument,
    log: Annotated[str, typer.Argument(help="Growing CSV file, or - for standard input.", metavar="LOG|-")],
    config: ConfigOption = None,
    root: RootOption = None,
    memory: Annotated[
        float | None, typer.Option("--memory", min=0.01, help="Seconds after which a row counts 1/e.")
    ] = None,
    excited: Annotated[
        bool, typer.Option("--excited", help="Forget only what new rows inform again.")
    ] = False,
    every: Annotated[float, typer.Option("--every", min=0.0, help="Seconds of log between reports.")] = 5.0,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0.0, help="End after this many seconds without a new row of a file."),
    ] = 2.0,
    out: Annotated[
        Path | None, typer.Option("--out", help="CSV file for the estimate over time; must not exist.")
    ] = None,
) -> None:
    """Follow a CSV log as it grows (columns t, q_<joint>, tau_<joint>) and print how the estimate settles."""
    import sys

    import numpy as np

    from dynid.diagnostics import Diagnostics
    from dynid.errors import InputError, Place, RefusedError
    from dynid.estimate.recursive import Forgetting
    from dynid.recipe import Experiment
    from dynid.robot import load_robot
    from dynid.rows.automatic import AutomaticRows
    from dynid.rows.momentum import MomentumRows
    from dynid.stream import watch_lines
    from dynid.watch import WATCH_TERMS, Watcher, WatchSettings

    if out is not None and out.exists():
        raise RefusedError("output-exists", found=f"output '{out}' exists already", expected="a new file")
    if log != "-" and not Path(log).is_file():
        raise InputError("file-missing", found="no such file", expected="a CSV log", place=Place(file=log))
    diagnostics = Diagnostics()
    model = load_robot(robot, root=root, diagnostics=diagnostics)
    experiment = Experiment.read(config)
    rows = experiment.rows()
    settings = WatchSettings(
        terms=experiment.terms() if config else WATCH_TERMS,
        rows=MomentumRows() if isinstance(rows, AutomaticRows) else rows,
        forgetting=Forgetting(memory if memory is not None else np.inf, "excited" if excited else "all"),
    )
    watcher = Watcher(model, settings)
    lines = sys.stdin if log == "-" else _growing(Path(log), wait)
    said = -np.inf
    for time in watch_lines(watcher, lines, "" if log == "-" else log):
        if time - said >= every:
            _report(watcher)
            said = time
    if watcher.seconds > 0:
        _report(watcher, whole=True)
        if out is not None:
            _write(out, watcher)
            say(f"estimate over time: {out}")
    else:
        say("no row in which a joint moved")
    print_diagnostics(diagnostics)


def _report(watcher: Watcher, whole: bool = False) -> None:
    track = watcher.trajectory
    value, std = track.value[-1], track.std[-1]
    known = int((std < 0.1 * abs(value)).sum())
    say(
        f"t = {track.t[-1]:.2f} s: {known} of {len(value)} base parameters within 10 %, "
        f"greatest eigenvalue of P {track.eigenvalues[-1][0]:.3g}"
    )
    if whole:
        for name, x, dx in zip(watcher.names, value, std, strict=True):
            say(f"  {x: .5g} +- {dx:.2g}  {name}")


def _write(path: Path, watcher: Watcher) -> None:
    from dynid.log.write import write_log

    track = watcher.trajectory
    columns = {f"value {name}": track.value[:, i] for i, name in enumerate(track.names)}
    columns |= {f"std {name}": track.std[:, i] for i, name in enumerate(track.names)}
    columns |= {"eigenvalue_greatest": track.eigenvalues[:, 0], "eigenvalue_least": track.eigenvalues[:, -1]}
    write_log(path, track.t, columns)


def _growing(path: Path, wait: float) -> Iterator[str]:
    # Lines of a file that another program still writes to; the last one counts only once it is complete.
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
