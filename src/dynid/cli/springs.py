"""dynid springs: estimate where a spring is mounted, within bounds, from a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.cli.common import (
    LogsArgument,
    RobotArgument,
    TopicOption,
    open_training,
    print_diagnostics,
    say,
    set_results,
)
from dynid.cli.options import RobotOptions, with_robot

if TYPE_CHECKING:
    from dynid.terms.term import Term, Terms
    from dynid.verbs.spring_search import GeometrySearch


@with_robot
def command(
    robot: RobotArgument,
    logs: LogsArgument,
    config: Annotated[
        Path,
        typer.Option(
            "--config", "-c", help="experiment.toml whose model has the spring with a guess of its geometry."
        ),
    ],
    bound: Annotated[
        list[str], typer.Option("--bound", help="Value to estimate, NAME=LOW:HIGH; may be repeated.")
    ],
    label: Annotated[
        str | None, typer.Option("--label", help="Label of the spring, if there are several.")
    ] = None,
    starts: Annotated[
        int, typer.Option("--starts", min=1, help="Number of starts; the first is the guess.")
    ] = 8,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the other starts.")] = 0,
    topic: TopicOption = None,
    *,
    robot_options: RobotOptions,
) -> None:
    """Estimate the geometry of a spring within bounds; all other parameters are fitted in each trial."""
    from dataclasses import replace

    from dynid.base.diagnostics import Diagnostics
    from dynid.identification.experiment import Experiment
    from dynid.terms.term import Terms
    from dynid.verbs.spring_search import search_geometry

    bounds = _bounds(bound)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config).with_topics(topic).with_robot(robot_options)
    settings = experiment.settings()
    spring = _spring(settings.model, label)
    others = Terms(tuple(term for term in settings.model if term is not spring))
    try:
        experiment, log = open_training(experiment, robot, logs, diagnostics)
        model = log.robot
        search = search_geometry(
            model,
            log,
            replace(settings, terms=others),
            spring,
            bounds,
            starts=starts,
            seed=seed,
            diagnostics=diagnostics,
        )
    finally:
        print_diagnostics(diagnostics)
    set_results(lambda: {name: value for name, value in vars(search).items() if name != "term"})
    _show(search)


def _bounds(given: list[str]) -> dict[str, tuple[float, float]]:
    from dynid.base.errors import UsageError

    bounds: dict[str, tuple[float, float]] = {}
    for text in given:
        name, _, span = text.partition("=")
        low, _, high = span.partition(":")
        try:
            pair = float(low), float(high)
        except ValueError as error:
            raise UsageError(
                "bound", found=f"--bound {text}", expected="NAME=LOW:HIGH, for example crank=0.1:0.4"
            ) from error
        if name in bounds:
            raise UsageError("bound", found=f"two bounds of {name}", expected="one range")
        bounds[name] = pair
    return bounds


def _spring(terms: Terms, label: str | None) -> Term:
    from dynid.base.errors import UsageError
    from dynid.terms.spring import Lever

    springs = [term for term in terms if isinstance(getattr(term, "geometry", None), Lever)]
    chosen = [term for term in springs if label in (None, getattr(term, "label", None))]
    if len(chosen) != 1:
        raise UsageError(
            "which-spring",
            found=f"{len(chosen)} springs with a geometry" + (f" and label '{label}'" if label else ""),
            expected="one spring with a geometry in the terms under [model]",
            do="--label " + " or ".join(str(getattr(term, "label", "")) for term in springs)
            if springs
            else 'add { term = "spring", geometry = {...} } with a guess of the geometry',
        )
    return chosen[0]


def _show(search: GeometrySearch) -> None:
    from dynid.verbs.spring_search import geometry_text

    say(f"{'geometry':<10}{'value':>12}{'+- 2 std':>12}{'from':>12}{'to':>12}")
    rows = zip(
        search.names, search.values, search.std, search.lower, search.upper, search.at_bound, strict=True
    )
    for name, value, std, low, high, stuck in rows:
        note = "  at its bound: widen the range, or fix this value" if stuck else ""
        say(f"{name:<10}{value:>12.5g}{2 * std:>12.2g}{low:>12.5g}{high:>12.5g}{note}")
    say(
        f"torque error: {100 * search.misfit_without:.3g} % without the spring, {100 * search.misfit:.3g} % with it; "
        f"{100 * search.agreeing:.0f} % of the starts end at this result"
    )
    say(geometry_text(search.term))
