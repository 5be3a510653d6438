"""dynid init: detect the columns of a log and write an experiment file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.cli.common import (
    AnswerOption,
    ForceOption,
    RobotArgument,
    answers_of,
    print_diagnostics,
    say,
    set_results,
    wants_json,
)
from dynid.cli.options import RobotOptions, with_robot

if TYPE_CHECKING:
    from dynid.layouts.proposal import Proposal


@with_robot
def command(
    robot: RobotArgument,
    logs: Annotated[
        list[Path],
        typer.Argument(help="A log, its folder, or its files per joint or signal.", metavar="LOG"),
    ],
    out: Annotated[Path, typer.Option("--out", help="Experiment file to write; must not exist.")] = Path(
        "experiment.toml"
    ),
    answer: AnswerOption = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            "--train", metavar="NAME", help="Trajectory to fit; may be repeated. Default: all of the log."
        ),
    ] = None,
    hold_out: Annotated[
        list[str] | None,
        typer.Option("--hold-out", metavar="NAME", help="Trajectory to hold out; may be repeated."),
    ] = None,
    preset: Annotated[
        list[Path] | None, typer.Option("--preset", help="Your own preset file; may be repeated.")
    ] = None,
    ask: Annotated[
        bool | None,
        typer.Option(
            "--ask/--no-ask",
            help="Ask about uncertain columns; the default on a terminal.",
            show_default=False,
        ),
    ] = None,
    force: ForceOption = False,
    *,
    robot_options: RobotOptions,
) -> None:
    """Detect the columns and units of a log, and write them with reasons to an experiment file."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.exporters.export import check_targets, write_files
    from dynid.layouts.proposal import proposal_data
    from dynid.layouts.propose import ask_all, later_question, propose_logs
    from dynid.layouts.write import answer_option, experiment_text, files_of, question_lines, summary_lines
    from dynid.robot import Reading, read_robot

    check_targets([out], [robot, *logs], force)
    diagnostics = Diagnostics()
    model = read_robot(robot, Reading(**robot_options), diagnostics)
    print_diagnostics(diagnostics)
    answers = answers_of(answer)
    proposal = propose_logs(model, logs, answers, preset or [])
    _require_one(logs, proposal)
    log = files_of(proposal)
    terminal = sys.stdin.isatty() and not wants_json()
    if proposal.open and (terminal if ask is None else ask):
        proposal = ask_all(model, proposal.log, proposal, answers, preset or [], say, _read)
    for line in summary_lines(proposal):
        say(line)
    set_results(lambda: {"written": out, "questions": proposal.open} | proposal_data(proposal))
    call = f"dynid init {robot} {log}"
    text = experiment_text(proposal, call, robot_options, train or (), hold_out or ())
    write_files({out: text.encode()})
    say("")
    if proposal.open:
        count = len(proposal.open)
        say(
            f"wrote {out} with {count} open question{'s' * (count > 1)}: answer in the file, or repeat with --force and"
        )
        for question in proposal.open:
            for line in question_lines(question):
                say(line)
            say(f"    {answer_option(question)}")
        if later := later_question(model, proposal.open, answers):
            say(f"  {later}")
        return
    say(f"wrote {out}; next: dynid identify {robot} {log} --config {out} --out run")


def _require_one(logs: list[Path], proposal: Proposal) -> None:
    from dynid.base.errors import UsageError

    if len(logs) > 1 and isinstance(proposal.log, Path):
        raise UsageError(
            "several-logs",
            found=f"{len(logs)} logs: {', '.join(map(str, logs))}",
            expected="one log",
            do="if each is a separate recording, name one: the written file is valid for all. If they are parts "
            "of one recording (positions in one, efforts in another), put them into a folder and name the folder",
        )


def _read(prompt: str) -> str:
    try:
        return input(prompt)
    except EOFError:
        return ""
