"""dynid explain: what a code in brackets means, how sure it is, what to do."""

from __future__ import annotations

from typing import Annotated

import typer

from dynid.cli.common import say, set_results


def command(
    codes: Annotated[
        list[str] | None,
        typer.Argument(
            help="As they stand in brackets: tilted-base of doubt[tilted-base]. None: all are listed.",
            metavar="[CODE...]",
        ),
    ] = None,
) -> None:
    """Say what a warning, doubt, finding or error means, how sure it is, and what to do."""
    from dynid.run.explanations import explain, sections

    if codes:
        found = explain(codes)
        set_results(lambda: {"codes": [vars(one) for one in found]})
        for number, (code, one) in enumerate(zip(codes, found, strict=True)):
            say("\n".join(["", *one.lines(code)] if number else one.lines(code)))
        return
    every = sections()
    set_results(lambda: {subject: {one.code: one.title for one in known} for subject, known in every.items()})
    for number, (subject, known) in enumerate(every.items()):
        say(f"\n{subject}" if number else subject)
        for one in known:
            say(f"  {one.code:<24}{one.title}")
