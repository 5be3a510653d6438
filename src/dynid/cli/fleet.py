"""dynid fleet: reduce many logs of many robots to one factor each, in a store that replaces the logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dynid.cli.common import progress_bar, say, set_results

if TYPE_CHECKING:
    from dynid.base.errors import ResourceError

# Alarms per type shown on the terminal; the page and tables have all.
_LISTED = 20


def command(
    words: Annotated[
        list[str],
        typer.Argument(
            help="Plan (TOML), or catalogue of logs (Parquet, CSV); or the word report and a fleet folder.",
            metavar="PLAN | report FOLDER",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the fleet; an existing one is continued.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="TYPE=RUN", help="Run folder with the model of a robot type; may be repeated."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            help="Dask scheduler, tls://HOST:PORT or tcp://HOST:PORT. Default: local processes.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="Local processes; results do not depend on it. Default: all cores."
        ),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Repeat all logs that failed.")] = False,
) -> None:
    """Reduce each log of a plan to a small factor in a store that replaces the logs; continues where it ended."""
    from dynid.base.errors import ResourceError, UsageError

    if words[0] == "report":
        _report(words[1:])
        return
    if len(words) > 1 or out is None:
        raise UsageError(
            "fleet-arguments",
            found=f"'{' '.join(words)}'" + (" without --out" if out is None else ""),
            expected="dynid fleet PLAN --out FOLDER, or dynid fleet report FOLDER",
        )
    from dynid.fleet.plan import read_plan
    from dynid.fleet.run import run_fleet

    plan = Path(words[0])
    content = read_plan(plan, _models(model or ()))
    with progress_bar(float(len(content.logs))) as progress:

        def advance(logs: int, _failed: int) -> None:
            if progress is not None:
                progress("logs", float(logs))

        try:
            done = run_fleet(content, out, scheduler=scheduler, workers=workers, again=retry, advance=advance)
        except ResourceError as error:
            _end(error, plan, out, model or (), scheduler, workers)
    say(f"{done.logs} logs: {done.before} already done, {done.done} done now, {done.failed} failed now")
    for code, count, example in done.store.failures():
        say(f"  {code}: {count}, for example {example}")
    set_results(
        lambda: {
            "fleet": out,
            "logs": done.logs,
            "before": done.before,
            "done": done.done,
            "failed": done.failed,
        }
    )
    say(f"fleet: {out}; tables and page: dynid fleet report {out}")


def _report(folders: Sequence[str]) -> None:
    from dynid.base.errors import UsageError
    from dynid.fleet.drift import LEAST_DAYS, analyse
    from dynid.fleet.page import alarm_text, write_fleet_page
    from dynid.fleet.store import FleetStore
    from dynid.report import percent

    if len(folders) != 1:
        raise UsageError(
            "fleet-arguments",
            found="dynid fleet report",
            expected="dynid fleet report FOLDER, with one folder",
        )
    store = FleetStore.open(folders[0])
    analyses = analyse(store)
    page = store.folder / "report.html"
    write_fleet_page(page, store, analyses)
    set_results(
        lambda: {
            "tables": store.folder / "tables",
            "report": page,
            "types": [analysis.data() for analysis in analyses],
        }
    )
    for analysis in analyses:
        say(
            f"{analysis.model.name}: {analysis.robots} robots, {analysis.logs} logs ({analysis.failed} failed), "
            f"{len(analysis.alarms)} alarms"
        )
        quiet = analysis.calibration.days
        if analysis.trusted:
            rate = percent(analysis.calibration.rate)
            say(f"  false alarms: {rate} a robot-year, from {quiet} quiet days in random order")
        else:
            say(
                f"  {quiet} quiet days are too few to calibrate the alarms: the false-alarm rate is uncertain "
                f"(needs {LEAST_DAYS})"
            )
        for alarm in analysis.alarms[:_LISTED]:
            say(f"  {alarm_text(alarm)}")
        if len(analysis.alarms) > _LISTED:
            say(f"  ... and {len(analysis.alarms) - _LISTED} more")
    say(f"tables: {store.folder / 'tables'}")
    say(f"report: {page}")


def _models(given: Sequence[str]) -> dict[str, Path]:
    from dynid.base.errors import UsageError

    models = {}
    for text in given:
        name, sign, folder = text.partition("=")
        if not (name and sign and folder):
            raise UsageError("model-option", found=f"--model {text}", expected="--model TYPE=RUN")
        models[name] = Path(folder)
    return models


def _end(
    error: ResourceError,
    plan: Path,
    out: Path,
    models: Sequence[str],
    scheduler: str | None,
    workers: int | None,
) -> NoReturn:
    """The error, with the command that continues the work."""
    import shlex

    from dynid.base.errors import ResourceError

    words = ["dynid", "fleet", str(plan), "--out", str(out)]
    for model in models:
        words += ["--model", model]
    words += ["--scheduler", scheduler] if scheduler else []
    words += ["--workers", str(workers)] if workers else []
    do = f"{error.do}; go on with: {shlex.join(words)}" if error.do else f"go on with: {shlex.join(words)}"
    raise ResourceError(
        error.identifier, found=error.found, expected=error.expected, do=do, place=error.place
    ) from error
