"""dynid cite: BibTeX of dynid and of the methods that a run used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import say, set_results


def command(
    run: Annotated[
        Path | None,
        typer.Argument(
            help="Run folder of dynid identify; without it every work is listed.", metavar="[RUN]"
        ),
    ] = None,
) -> None:
    """Print BibTeX of dynid and of the methods that a run used."""
    from dynid.api.publish import bibtex, works_to_cite

    if run is None:
        keys = works_to_cite()
    else:
        from dynid.run.store import load

        keys = works_to_cite(load(run))
    set_results(lambda: {"keys": keys})
    say(bibtex(keys).rstrip())
