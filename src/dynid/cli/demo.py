"""dynid demo: the whole workflow on a simulated arm, without any other file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ForceOption, claim_output, progress_bar, say, set_results


def command(
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")] = Path("dynid-demo"),
    seed: Annotated[int, typer.Option("--seed", help="Seed of the simulated noise.")] = 1,
    fast: Annotated[bool, typer.Option("--fast", help="Use shorter motions.")] = False,
    force: ForceOption = False,
) -> None:
    """Simulate and log an arm, identify and validate it, compare with the truth, and write a report."""
    from dynid.run.store import check_output
    from dynid.verbs.demo import run_demo

    claim_output(out, lambda: check_output(out, force=force))
    with progress_bar(total=float("nan")) as progress:
        result = run_demo(out, seed=seed, fast=fast, force=force, progress=progress)
    set_results(lambda: vars(result))
    say(result.text())
