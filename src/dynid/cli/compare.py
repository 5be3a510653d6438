"""dynid compare: scores and agreement of several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ForceOption, say, set_results


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, at least two.", metavar="RUN RUN...")],
    out: Annotated[Path | None, typer.Option("--out", help="HTML page to write; must not exist.")] = None,
    pool: Annotated[
        Path | None,
        typer.Option("--pool", help="JSON file for pooled parameters and all figures; must not exist."),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Compare runs: scores, whether their parameters agree, and if not, whether the robot or the model is the cause."""
    import json

    from dynid.base.errors import UsageError
    from dynid.base.files import refuse_existing
    from dynid.run.store import load
    from dynid.verbs.summary import (
        agreement_data,
        agreement_lines,
        agreement_or_reason,
        comparison_data,
        comparison_lines,
        difference_lines,
    )

    if len(runs) < 2:
        raise UsageError("one-run", found="one run", expected="at least two to compare")
    for target in (out, pool):
        if target is not None and not force:
            refuse_existing(target, "choose another name, or --force to replace it")
    stored = [(run.name or str(run), load(run)) for run in runs]
    result, reason = agreement_or_reason(stored)
    if pool is not None and result is None:
        raise UsageError(
            "nothing-to-pool", found=reason, expected="runs of one robot with three blocks of data each"
        )
    set_results(
        lambda: comparison_data(stored) | {"agreement": None if result is None else agreement_data(result)}
    )
    for line in comparison_lines(stored):
        say(line)
    say("")
    for line in [reason, *difference_lines(stored)] if result is None else agreement_lines(result):
        say(line)
    if out is not None:
        from dynid.report.compare import write_comparison_page

        write_comparison_page(out, stored, result)
        say(f"page: {out}")
    if pool is not None and result is not None:
        from dynid.exporters.export import write_files

        text = json.dumps(agreement_data(result), indent=1, allow_nan=False) + "\n"
        write_files({pool: text.encode("utf-8")})
        say(f"pooled: {pool}")
