"""dynid export: write a model or a planned motion for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ConfigOption, TopicOption, completes, print_diagnostics, say, set_results


def _formats() -> list[str]:
    from dynid.exporters.export import FORMATS

    return [*FORMATS, "table"]


def command(
    run: Annotated[
        Path,
        typer.Argument(help="Run folder of dynid identify, or plan folder of dynid excite.", metavar="RUN"),
    ],
    to: Annotated[
        Path, typer.Option("--out", "--to", help="File to write (a folder for a motion); must not exist.")
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--format",
            autocompletion=completes(_formats),
            help="urdf, mjcf, playground, sdf, c, json, actuators, isaaclab, lerobot, khalil, pinocchio, samples, or "
            "table (parameters for publications: .csv, .tex, .md, .xlsx). Default: by the suffix. "
            "For a motion: formats of 'dynid excite', separated by commas.",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            help="URDF or MJCF whose copy gets the parameters. Default: the robot file of the run.",
        ),
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="Root link in that file.")] = None,
    allow_unphysical: Annotated[
        bool,
        typer.Option("--allow-unphysical", help="Write links even if they are not physically consistent."),
    ] = False,
    feasible: Annotated[
        bool,
        typer.Option(
            "--feasible", help="Write the closest physically consistent links if those of the run are not."
        ),
    ] = False,
    ensemble: Annotated[
        int,
        typer.Option(
            "--ensemble", min=0, help="Number of models to draw, as numbered files or one file of samples."
        ),
    ] = 0,
    posterior: Annotated[
        bool,
        typer.Option(
            "--posterior", help="Draw from the posterior of physically consistent links (data and prior)."
        ),
    ] = False,
    width: Annotated[
        str,
        typer.Option(
            "--width",
            autocompletion=completes(lambda: ("error", "noise")),
            help="Width of an ensemble: error = from the model error; noise = from the covariance alone.",
        ),
    ] = "error",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draws.")] = 0,
    validation: Annotated[
        list[Path] | None,
        typer.Option(
            "--validate",
            help="Log for the torque spread of an ensemble; may be repeated. Default: the held-out log of the run.",
        ),
    ] = None,
    free_motion: Annotated[
        list[Path] | None,
        typer.Option(
            "--free-motion",
            help="Log without contact, for external-torque thresholds in C code; may be repeated.",
        ),
    ] = None,
    alarm_rate: Annotated[
        float, typer.Option("--alarm-rate", help="Share of its samples that may exceed these thresholds.")
    ] = 0.01,
    config: ConfigOption = None,
    topic: TopicOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Write a stored model as URDF, MJCF, C code, JSON or a table, or a planned motion for another controller."""
    from dynid.api.publish import WRITERS, write_table
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import DynidError, UsageError
    from dynid.exporters import export
    from dynid.exporters.export import summary_lines
    from dynid.exporters.model import ExportModel
    from dynid.identification.experiment import Experiment, open_log
    from dynid.run.floating import refuse_floating
    from dynid.run.store import load
    from dynid.verbs.external_torque import thresholds

    if (run / "plan.json").is_file() and _is_plan(run):
        model_alone = {
            "--source": source, "--root": root, "--allow-unphysical": allow_unphysical, "--feasible": feasible,
            "--ensemble": ensemble, "--posterior": posterior, "--validate": validation,
            "--free-motion": free_motion, "--config": config, "--topic": topic,
        }  # fmt: skip
        _motion(run, to, kind, [name for name, given in model_alone.items() if given], force)
        return
    if validation and not ensemble:
        raise UsageError(
            "validate-ensemble",
            found="--validate without --ensemble",
            expected="--ensemble N with --validate",
        )
    stored = load(run)
    if kind == "table" or (kind is None and to.suffix.lower() in WRITERS):
        written = write_table(stored, to, force=force)
        set_results(lambda: {"files": (written,)})
        say(f"written: {written}")
        return
    diagnostics = Diagnostics()
    held_out, limits = None, None
    if validation or free_motion:
        refuse_floating(stored.robot, "--validate and --free-motion")
        experiment = Experiment.read(config) if config else Experiment.from_dict(stored.experiment)
        experiment = experiment.with_topics(topic)
        selected = experiment.data.validate_on
        if validation:
            held_out = open_log(experiment, validation, stored.robot, selected, diagnostics)
        if free_motion:
            log = open_log(experiment, free_motion, stored.robot, selected, diagnostics)
            limits = thresholds(ExportModel.of_run(stored), log, alarm_rate)
    try:
        exported = export(
            stored,
            to,
            kind,
            source=source,
            root=root,
            allow_unphysical=allow_unphysical,
            feasible=feasible,
            ensemble=ensemble,
            seed=seed,
            posterior=posterior,
            width=width,
            unseen=held_out,
            thresholds=limits,
            force=force,
            diagnostics=diagnostics,
        )
    except DynidError:
        print_diagnostics(diagnostics)
        raise
    print_diagnostics(diagnostics)
    set_results(lambda: {"files": exported.files, "change_of_torque": exported.moved})
    for line in summary_lines(exported, stored):
        say(line)


def _is_plan(folder: Path) -> bool:
    from dynid.excitation.folder import is_plan  # loads what designs motions

    return is_plan(folder)


def _motion(plan: Path, to: Path, kind: str | None, others: list[str], force: bool) -> None:
    from dynid.base.errors import UsageError
    from dynid.excitation.folder import write_stored
    from dynid.excitation.settings import Format

    names = tuple(map(str, Format))
    forms = [] if kind is None else [name.strip() for name in kind.split(",")]
    if not forms or not set(forms) <= set(names):
        raise UsageError(
            "motion-format",
            found="no --format" if kind is None else f"--format {kind}",
            expected="for a planned motion: " + ", ".join(names),
        )
    if others:
        raise UsageError(
            "motion-format",
            found=f"{', '.join(others)} with a planned motion",
            expected="a run folder for these options",
        )
    written = write_stored(plan, to, forms, force=force)
    set_results(lambda: {"files": written})
    for path in written:
        say(f"written: {path}")
