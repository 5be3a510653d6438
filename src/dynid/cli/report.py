"""dynid report: print the verdict of a run and write its report again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import say, say_identification, set_results


def command(
    run: Annotated[Path, typer.Argument(help="Run folder of dynid identify.", metavar="RUN")],
) -> None:
    """Print verdict and scores of a run, and write its report.html again."""
    from dynid.base.errors import ResourceError
    from dynid.report import write_report
    from dynid.run.store import load
    from dynid.verbs.summary import identification_data

    stored = load(run)
    set_results(lambda: identification_data(stored) | {"run": run, "report": run / "report.html"})
    try:
        write_report(stored, run / "report.html")
    except ResourceError as error:
        # A read-only run can still be printed.
        say_identification(stored, "not updated")
        say(f"report: not updated: {error.found}", err=True)
        return
    say_identification(stored, run / "report.html")
