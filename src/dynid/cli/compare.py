"""dynid compare: several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ForceOption, say, set_results


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, at least two.", metavar="RUN RUN...")],
    out: Annotated[
        Path | None, typer.Option("--out", help="HTML page to write as well; must not exist.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Print scores side by side and the parameters that differ beyond their intervals."""
    from dynid.base.atomic_write import refuse_existing
    from dynid.base.errors import UsageError
    from dynid.run.store import load
    from dynid.verbs.results import comparison_data
    from dynid.verbs.summary import comparison_lines

    if len(runs) < 2:
        raise UsageError("one-run", found="one run", expected="at least two to compare")
    if out is not None and not force:
        refuse_existing(out, "choose another --out, or --force to replace it")
    stored = [(run.name or str(run), load(run)) for run in runs]
    set_results(lambda: comparison_data(stored))
    for line in comparison_lines(stored):
        say(line)
    if out is not None:
        from dynid.report.compare import write_comparison_page

        write_comparison_page(out, stored)
        say(f"page: {out}")
