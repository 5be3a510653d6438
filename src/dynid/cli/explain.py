"""dynid explain: meaning, certainty and remedy of a code."""

from __future__ import annotations

from typing import Annotated

import typer

from dynid.cli.common import completes, say, set_results


def _codes() -> list[str]:
    from dynid.run.explanations import sections

    return sorted({code for known in sections().values() for entry in known for code in entry.codes})


def command(
    codes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Codes, printed in brackets after a message, for example tilted-base. Without a code, all are listed.",
            metavar="[CODE...]",
            autocompletion=completes(_codes),
        ),
    ] = None,
) -> None:
    """Explain a warning, doubt, finding or error: what it means, how certain it is, and what to do."""
    from dynid.run.explanations import explain, sections

    if codes:
        explanations = explain(codes)
        set_results(lambda: {"codes": [vars(explanation) for explanation in explanations]})
        for number, (code, explanation) in enumerate(zip(codes, explanations, strict=True)):
            say("\n".join(["", *explanation.lines(code)] if number else explanation.lines(code)))
        return
    every = sections()
    set_results(
        lambda: {
            subject: {explanation.code: explanation.title for explanation in known}
            for subject, known in every.items()
        }
    )
    for number, (subject, known) in enumerate(every.items()):
        say(f"\n{subject}" if number else subject)
        for explanation in known:
            say(f"  {explanation.code:<24}{explanation.title}")
