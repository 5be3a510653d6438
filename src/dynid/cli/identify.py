"""dynid identify: identify a robot from logs, and write a run folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import (
    AcceptOption,
    AnswerOption,
    ConfigOption,
    ForceOption,
    LogsArgument,
    RobotArgument,
    ThreadsOption,
    TopicOption,
    claim_output,
    completes,
    open_training,
    progress_bar,
    say,
    say_identification,
    set_results,
)
from dynid.cli.options import RobotOptions, Written, with_robot, with_settings


def _methods() -> tuple[str, ...]:
    from dynid.estimate.catalogue import CATALOGUE

    return CATALOGUE.names()


def _schemes() -> tuple[str, ...]:
    from dynid.rows.catalogue import CATALOGUE

    return (*CATALOGUE.names(), "all")


@with_settings
@with_robot
def command(
    robot: RobotArgument,
    logs: LogsArgument,
    out: Annotated[Path, typer.Option("--out", help="Run folder to write; must not exist.")],
    config: ConfigOption = None,
    answer: AnswerOption = None,
    topic: TopicOption = None,
    validation: Annotated[
        list[Path] | None, typer.Option("--validate", help="Log to hold out; may be repeated.")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows",
            autocompletion=completes(_schemes),
            help="Equations, instead of those of the experiment; all = also compare all schemes.",
        ),
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            "--estimator",
            "--method",
            autocompletion=completes(_methods),
            help="Estimation method, instead of that of the experiment: wls, irls, didim, oe, ...",
        ),
    ] = None,
    friction_side: Annotated[
        str | None,
        typer.Option(
            "--friction-side",
            autocompletion=completes(lambda: ("joint", "motor", "both")),
            help="Friction at the joint or the motor; both = choose by the log.",
        ),
    ] = None,
    auto: Annotated[
        bool | None,
        typer.Option(
            "--auto/--no-auto",
            help="Choose the model on held-out blocks; the default if no terms are given.",
            show_default=False,
        ),
    ] = None,
    accept: AcceptOption = None,
    threads: ThreadsOption = None,
    force: ForceOption = False,
    *,
    robot_options: RobotOptions,
    written: Written,
) -> None:
    """Identify the dynamics of a robot, validate the model on held-out data, and write a run folder."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import UsageError
    from dynid.identification.experiment import Experiment, named_files, open_log
    from dynid.identification.pipeline import identify
    from dynid.run.store import check_output
    from dynid.terms.catalogue import terms_to_spec
    from dynid.verbs.demo import save
    from dynid.verbs.schemes import on_side
    from dynid.verbs.summary import identification_data

    held_out = tuple(validation or ())
    if friction_side is not None and auto:
        raise UsageError(
            "friction-side-auto",
            found="--friction-side with --auto",
            expected="one of them",
            do="remove one of them: --auto would replace the terms for which the side is chosen",
        )
    inputs = (robot, *logs, *held_out, *((config,) if config else ()))
    claim_output(out, lambda: check_output(out, inputs, force))
    diagnostics = Diagnostics()
    model_keys = {"rows": None if rows == "all" else rows, "automatic": auto}
    experiment = Experiment.read(config).with_topics(topic).with_values(written)
    experiment = experiment.with_accepted(accept).with_robot(robot_options)
    experiment = experiment.with_values({"model": {k: v for k, v in model_keys.items() if v is not None}})
    if estimator is not None:
        experiment = experiment.with_method(estimator)
    experiment.settings()  # errors in settings are reported before a log is read
    experiment, training = open_training(experiment, robot, logs, diagnostics, answer)
    settings, stored = experiment.settings(), experiment.to_dict()
    model = training.robot  # joints that are not in the log are locked
    held_out_log = None
    if held_out or experiment.data.validate_on:
        held_out_log = open_log(
            experiment, held_out or tuple(logs), model, experiment.data.validate_on, diagnostics
        )
    if friction_side is not None:
        settings = replace(settings, terms=settings.model, automatic=False)
        settings, _ = on_side(model, training, settings, friction_side, diagnostics)
        stored["model"] = stored.get("model", {}) | {"terms": terms_to_spec(settings.model)}
    with progress_bar(training.duration) as progress:
        result = identify(
            model,
            training,
            settings,
            validation=held_out_log,
            threads=threads,
            progress=progress,
            experiment=stored,
            files=named_files(robot, logs, held_out, config),
            diagnostics=diagnostics,
        )
    report = save(result, out, force)
    set_results(lambda: identification_data(result) | {"run": out, "report": report})
    say_identification(result, report)
    if rows == "all":
        from dynid.verbs.schemes import compare_schemes, scheme_lines

        say("")
        settings = replace(settings, terms=result.terms, automatic=False)
        for line in scheme_lines(
            compare_schemes(model, training, settings, validation=held_out_log, threads=threads)
        ):
            say(line)
