"""Logs of real robots by dynid's default command, beside plain weighted least squares.

    python benchmarks/real.py [--data FOLDER] [--only panda] [--write docs/real-logs.md] [--json rows.json]
                              [--timeout 900]
    python benchmarks/real.py --estimators ukf,cdkf [--out filters.jsonl] [--timeout 3600] [--write docs/estimators.md]

The folder (default: $DYNID_DATA) holds a folder a robot. Every `robot*.urdf|xml|toml` in it is identified with every
`mapping*.toml` and the log `data.*`, byte for byte, by what a user would type:

    dynid identify ROBOT LOG --config MAPPING --out RUN

Logs of commands have no mapping: their experiment names the drives' gains and the split of the folder's description.
Plain least squares takes the commanded torque as it is, without a delay.
Rows marked "expert" use the experiment files of tests/robots; where a folder has no mapping, the sections [log] and
[data] of that file alone serve as one ("columns only").
A score of either method is ||tau - tau_hat|| / ||tau|| over all joints on held-out motion, both filtered alike, on
the samples on which a joint moves (0.02 rad/s), and over all samples between the filters' edges. Plain least squares is
scored at the cut-off that is named for the log and, as a score falls with the cut-off, at dynid's as well. Processor
time and memory are those of the command (wait4), which ends after --timeout s.

--estimators: the same command with each of these, experts' rows left out; rows are kept in --out, and the same command
goes on where it stopped. Ends with 1 where a command wrote a traceback, left a file after a refusal, or ended with a
code that it has no message for.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import (
    campaign,
    dynid_command,
    figure,
    markdown,
    note,
    on_real_logs,
    pinocchio_model,
    publish,
)

import numpy as np
from dynid_bench.adapters.least_squares import Arm, equations, fit
from dynid_bench.data import read_recipe, recipes
from dynid_bench.protocol import Motion

import dynid
from dynid.base import Diagnostics, DynidError, Float
from dynid.identification import Experiment, open_log
from dynid.robot import RobotModel, load_robot
from tests.robot_files import ROBOTS

FOLDS = 5  # contiguous parts held out in turn where a mapping names nothing to validate on
USUAL_CUTOFF = 8.0  # Hz, of plain least squares on arms that nothing is said of
# Hz, of plain least squares, as the benchmark of several projects scores each log.
RECIPES = {name: read_recipe(path) for name, path in recipes().items()}
CUTOFFS = {name: recipe.cutoff for name, recipe in RECIPES.items()}
ROBOT_FILES = ("*.toml", "*.urdf", "*.xml")
SHIPPED = {"panda_gaz": "panda_gaz.toml"}  # robots that ship with dynid rather than lie beside the log
EXPERTS = {
    "panda_gaz": ("panda_gaz.toml", "panda_gaz_chosen.experiment.toml"),
    "ur10e_innopolis": ("ur10e_innopolis.toml", "ur10e_innopolis.experiment.toml"),
    "kr300_rptu": ("kr300_rptu.toml", "kr300_rptu.experiment.toml"),
}
# No torque was measured: gains of the drives and the split for scores, as the folders' descriptions have them.
SPLIT = """
[data]
train = [{ trajectory = "*", part = [0.0, 0.7] }]
validate = [{ trajectory = "*", part = [0.7, 1.0] }]
"""
COMMANDS_ONLY = {
    name: f"[drive]\nkp = {recipe.servo.kp}\nkd = {recipe.servo.kd}\n{SPLIT}"
    for name, recipe in RECIPES.items()
    if recipe.servo is not None
}
EXPERT, COLUMNS_ONLY = "expert", "columns only"
WORSE = 1.03  # at most so many times what plain least squares misses
ERROR = re.compile(r"error\[([^\]]+)\]")
EXPORTS = {"URDF": "robot.urdf", "MJCF": "robot.xml", "C": "robot.c"}


@dataclass(frozen=True)
class Goal:
    """Per cent that may be missed, as printed; an error that rounds to it is within it."""

    moving: str = ""
    all: str = ""
    by_joint: str = ""
    exportable: bool = False

    def __str__(self) -> str:
        parts = [f"<= {self.moving}" if self.moving else "", f"all <= {self.all}" if self.all else ""]
        parts += [f"<= {self.by_joint} by joint" if self.by_joint else ""]
        parts += ["exportable" if self.exportable else ""]
        return ", ".join(part for part in parts if part) or "none"


GOALS = {
    "krang_lwa3 robot.toml mapping.toml": Goal("17"),
    "lwr4_flobaroid robot.toml mapping.toml": Goal("11"),
    "lwr4_flobaroid robot_gaz.urdf mapping.toml": Goal("4.6"),
    "tx40_lirmm robot.toml mapping.toml": Goal("6.0", "11"),
    "airbot_play robot.urdf mapping.toml": Goal("9"),
    "airbot_play robot.urdf mapping_loaded.toml": Goal("7.5"),
    "aliengo_pace robot.xml": Goal("7.4"),
    "z1_pace robot.xml": Goal("15"),
    "panda_gaz panda.toml mapping.toml": Goal("1.05", exportable=True),
    "ur10e_innopolis ur10e_innopolis.toml ur10e_innopolis.experiment.toml (columns only)": Goal(
        by_joint="4.4/3.1/3.8/3.9/6.2/5.5"
    ),
    "kr300_rptu kr300_rptu.toml kr300_rptu.experiment.toml (expert)": Goal(by_joint="4.4/2.9/2.1/18/3.6/7.4"),
}


@dataclass(frozen=True)
class Case:
    """One run of the command; mapping: None = of commands, whose gains the benchmark knows."""

    folder: str
    robot: Path
    log: Path
    mapping: Path | None
    note: str = ""

    @property
    def name(self) -> str:
        """The folder and the files used."""
        files = " ".join([self.folder, self.robot.name, *([self.mapping.name] if self.mapping else [])])
        return f"{files} ({self.note})" if self.note else files


@dataclass
class Row:
    """A line of the table: per cent of the held-out torque missed, over moving and over all samples, by joint.

    cutoffs: Hz, of plain least squares and of dynid.    plain_alike: plain least squares at dynid's.
    """

    name: str
    plain: list[float] = field(default_factory=list)
    plain_alike: list[float] = field(default_factory=list)
    cutoffs: list[float] = field(default_factory=list)
    ours: list[float | None] = field(default_factory=list)
    by_joint: list[float | None] = field(default_factory=list)
    left_out: dict[str, float] = field(default_factory=dict)
    verdict: str = "not yet"
    exit: int | None = None
    exports: dict[str, str] = field(default_factory=dict)
    processor_s: float = 0.0
    memory_mb: float = 0.0


def cases(data: Path) -> Iterator[Case]:
    """Every default run that a data folder offers, then the experts'."""
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        logs = sorted(folder.glob("data.*"))
        robots = sorted(file for kind in ROBOT_FILES for file in folder.glob("robot" + kind))
        if folder.name in SHIPPED and not robots:
            robots = [ROBOTS / SHIPPED[folder.name]]
        mappings = sorted(folder.glob("mapping*.toml"))
        for robot in robots if logs else []:
            for mapping in mappings:
                yield Case(folder.name, robot, logs[0], mapping)
            if not mappings and folder.name in COMMANDS_ONLY:
                yield Case(folder.name, robot, logs[0], None)
    for name, (robot_file, experiment) in EXPERTS.items():
        for log in sorted((data / name).glob("data.*"))[:1]:
            if not any((data / name).glob("mapping*.toml")):
                yield Case(name, ROBOTS / robot_file, log, ROBOTS / experiment, COLUMNS_ONLY)
            yield Case(name, ROBOTS / robot_file, log, ROBOTS / experiment, EXPERT)


def run(case: Case, scratch: Path, timeout: float) -> Row:
    """The command on one case, what it wrote, and plain least squares on the same motion."""
    row = Row(case.name)
    case = with_mapping(case, scratch)
    row.cutoffs = [cutoff_of(case)]
    row.plain = plain_scores(case, row.cutoffs[0])
    folder = scratch / "run"
    command = (case.robot, case.log, "--config", case.mapping, "--out", folder)
    ended = dynid_command("identify", *command, timeout=timeout)
    row.exit, row.processor_s, row.memory_mb = ended.code, ended.seconds, ended.megabytes
    if row.exit:
        row.verdict = refusal(ended.errors)
        return row
    read_run(row, json.loads((folder / "run.json").read_text()))
    row.plain_alike = plain_scores(case, row.cutoffs[1])
    for kind, name in EXPORTS.items():
        ended = dynid_command("export", folder, "--to", scratch / name, timeout=timeout)
        named = ERROR.search(ended.errors)
        row.exports[kind] = "yes" if ended.code == 0 else f"{ended.code} `{named[1] if named else '?'}`"
    return row


def refusal(errors: str) -> str:
    """How a command ended that made no run, by what it printed."""
    named = ERROR.search(errors)
    return f"refused: `{named[1]}`" if named else "no result"


def run_estimator(job: tuple[Case, str, float]) -> dict[str, Any]:
    """With what the command ends on a case, with an estimator that is named to it."""
    case, estimator, timeout = job
    with tempfile.TemporaryDirectory() as name:
        used, folder, row = with_mapping(case, Path(name)), Path(name) / "run", Row(case.name)
        files = (used.robot, used.log, "--config", used.mapping)
        ended = dynid_command("identify", *files, "--estimator", estimator, "--out", folder, timeout=timeout)
        if ended.code == 0:
            read_run(row, json.loads((folder / "run.json").read_text()))
        else:
            row.verdict = refusal(ended.errors)
        refused = bool(ERROR.search(ended.errors)) and not folder.exists()
    return {
        "name": case.name,
        "method": estimator,
        "exit": ended.code,
        "outcome": row.verdict,
        "missed": row.ours,
        "clean": "Traceback" not in ended.errors and (ended.code == 0 or refused),
        "seconds": ended.seconds,
        "megabytes": ended.megabytes,
    }


def table_of_estimators(rows: Sequence[dict[str, Any]]) -> str:
    """The rows of `run_estimator` as Markdown."""
    head = (
        "log, robot, mapping", "method", "exit", "ends with", "torque error, %: moving / all", "processor, s",
        "memory, MB",
    )  # fmt: skip
    cells = [
        (
            f"`{row['name']}`",
            f"`{row['method']}`",
            row["exit"],
            row["outcome"] + ("" if row["clean"] else ", not cleanly"),
            pair(row["missed"]),
            figure(row["seconds"]),
            f"{row['megabytes']:.0f}",
        )
        for row in rows
    ]
    return markdown(head, cells)


def with_mapping(case: Case, scratch: Path) -> Case:
    """The case with a mapping that the command reads: a file of the folder, or one written to `scratch`."""
    if case.mapping is None:
        case = replace(case, mapping=scratch / "drive.toml")
        case.mapping.write_text(COMMANDS_ONLY[case.folder])
    if case.note == COLUMNS_ONLY:
        mapping = scratch / case.mapping.name
        mapping.write_text(columns_of(case.mapping.read_text()))
        case = replace(case, mapping=mapping)
    return case


def columns_of(experiment: str) -> str:
    """The sections [log] and [data] of an experiment file."""
    kept, lines = True, []
    for line in experiment.splitlines():
        header = re.match(r"\[+([a-z_]+)", line)
        kept = header[1] in ("log", "data") if header else kept
        lines += [line] if kept else []
    return "\n".join(lines) + "\n"


def read_run(row: Row, run: dict[str, Any]) -> None:
    """Verdict and held-out scores of a run folder."""
    row.verdict = run["verdict"]["level"].upper()
    row.cutoffs.append(run["preparation"]["settings"]["cutoff"])
    if len(run["scores"]) < 2:
        return  # too short to hold anything out
    scores = run["scores"][1]
    whole = scores["all_samples"] if scores["left_out"] else scores
    row.ours = [percent(scores["total_relative"]), percent(whole["total_relative"]) if whole else None]
    row.by_joint = [percent(share) for share in scores["relative"]]
    row.left_out = {why: 100 * share for why, share in scores["left_out"].items()}


def percent(value: float | None) -> float | None:
    """Per cent of a share; None = undefined, of a joint without torque."""
    return None if value is None else 100.0 * value


def plain_scores(case: Case, cutoff: float) -> list[float]:
    """Per cent that plain least squares at a cut-off (Hz) misses, moving and all; nothing where it cannot be run."""
    assert case.mapping is not None
    try:
        experiment = Experiment.read(case.mapping)
        robot = experiment.with_drives(load_robot(case.robot))
        prepared = [
            equations(arm_of(robot), motion, cutoff)
            for motion in motions(experiment, case.log, robot, experiment.data.train)
        ]
        if experiment.data.validate_on:
            unseen = [
                equations(arm_of(robot), motion, cutoff)
                for motion in motions(experiment, case.log, robot, experiment.data.validate_on)
            ]
            splits = [(prepared, unseen)]
        else:
            splits = list(folds(prepared))
    except DynidError as error:
        note(f"{case.name}: no plain least squares: {error}")
        return []
    measured, missed, moving = [], [], []
    for train, test in splits:
        theta = fit([Y for Y, _, _ in train], [tau for _, tau, _ in train])
        for Y, tau, moves in test:
            measured.append(tau)
            missed.append(tau - Y @ theta)
            moving.append(moves)
    tau, error, moves = (np.concatenate(parts) for parts in (measured, missed, moving))
    return [relative(error[moves], tau[moves]), relative(error, tau)]


def relative(error: Float, tau: Float) -> float:
    """100 ||error|| / ||tau||."""
    return 100.0 * float(np.linalg.norm(error) / np.linalg.norm(tau))


def folds(prepared: list[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Training and held-out parts: contiguous fifths of all equations in turn."""
    joined = tuple(np.concatenate(parts) for parts in zip(*prepared, strict=True))
    for part in np.array_split(np.arange(len(joined[0])), FOLDS):
        rest = np.setdiff1d(np.arange(len(joined[0])), part)
        yield [tuple(rows[rest] for rows in joined)], [tuple(rows[part] for rows in joined)]


def cutoff_of(case: Case) -> float:
    """The experiment file's cut-off in an expert's row, otherwise the one named for the log."""
    named = {}
    if case.note == EXPERT and case.mapping is not None:
        named = tomllib.loads(case.mapping.read_text()).get("prepare", {})
    return float(named.get("cutoff", CUTOFFS.get(case.folder, USUAL_CUTOFF)))


def arm_of(robot: RobotModel) -> Arm:
    """Kinematics for pinocchio; what is known of inertias is not used."""
    model = pinocchio_model(robot, np.zeros((robot.n_bodies, 10)))
    N = robot.drive.transmission
    coupled = N[(N != 0).sum(axis=1) > 1]
    largest = np.abs(coupled).max(axis=1, keepdims=True, initial=0.0)
    return Arm(model, robot.projection, robot.projection_offset, coupled / largest)


def opened(folder: str, robot: str, mapping: str, data: Path) -> tuple[Experiment, RobotModel]:
    """An experiment and its robot, by names of files of the log's folder, or else of tests/robots or the package."""
    files = (data / folder / name for name in (mapping, robot))
    mapping_file, robot_file = (file if file.is_file() else ROBOTS / file.name for file in files)
    experiment = Experiment.read(mapping_file)
    return experiment, experiment.with_drives(load_robot(robot_file))


def motions(
    experiment: Experiment, log: Path, robot: RobotModel, selection: Sequence[Any]
) -> Iterator[Motion]:
    """The selected parts of a log at the joints, in SI units, as dynid reads them."""
    opened = open_log(experiment, [log], robot, selection, Diagnostics())
    for trajectory in opened.trajectories:
        chunk = opened.read(trajectory)
        if chunk.tau is not None:
            velocity = None if chunk.dq is None else np.array(chunk.dq)
            yield Motion(np.array(chunk.t), np.array(chunk.q), np.array(chunk.tau), velocity)


def within(value: float | None, bound: str) -> bool:
    """Whether a figure is at most the bound when it is rounded as the bound is."""
    digits = len(bound.partition(".")[2])
    return value is not None and round(value, digits) <= float(bound)


def misses(row: Row) -> list[str]:
    """What a row falls short of, in words; empty = every goal is met."""
    goal = GOALS.get(row.name, Goal())
    if row.exit is None:
        return ["not yet"]
    if row.exit:
        return [f"exit {row.exit}"]
    short = []
    moving, whole = row.ours or (None, None)
    if goal.moving and not within(moving, goal.moving):
        short.append("goal")
    if goal.all and not within(whole, goal.all):
        short.append("goal on all samples")
    bounds = goal.by_joint.split("/") if goal.by_joint else []
    if bounds and not all(within(value, bound) for value, bound in zip(row.by_joint, bounds, strict=True)):
        short.append("goal by joint")
    if goal.exportable and any(state != "yes" for state in row.exports.values()):
        short.append("not exportable")
    if row.plain and (moving is None or moving > WORSE * row.plain[0]):
        short.append("worse than least squares")
    return short


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    head = (
        "log, robot, mapping", "cut-off, Hz: least squares / dynid", "least squares, %: moving / all",
        "the same at dynid's cut-off", "dynid, %: moving / all", "by joint, moving, %", "left out", "goal, %", "met",
        "verdict", "exit", "exportable", "processor, s", "memory, MB",
    )  # fmt: skip
    lines = []
    for row in rows:
        short = misses(row)
        cells = (
            f"`{row.name}`",
            pair(row.cutoffs),
            pair(row.plain),
            pair(row.plain_alike),
            pair(row.ours),
            "/".join(map(figure, row.by_joint)) or "-",
            ", ".join(f"{share:.1f} % {why}" for why, share in row.left_out.items()) or "-",
            str(GOALS.get(row.name, Goal())),
            "yes" if not short else "not yet" if row.exit is None else "no: " + ", ".join(short),
            row.verdict,
            "-" if row.exit is None else str(row.exit),
            exportable(row),
            f"{row.processor_s:.1f}" if row.exit is not None else "-",
            f"{row.memory_mb:.0f}" if row.exit is not None else "-",
        )
        lines.append(cells)
    return markdown(head, lines)


def exportable(row: Row) -> str:
    """Which formats the run could be written in, and why not in the others."""
    if not row.exports:
        return "not yet" if row.exit is None else "-"
    if all(state == "yes" for state in row.exports.values()):
        return "yes"
    return ", ".join(f"{kind} {state}" for kind, state in row.exports.items())


def pair(values: Sequence[float | None]) -> str:
    """Two figures, or a dash."""
    return " / ".join(map(figure, values)) or "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the cases, prints the table, and writes it to the named file."""
    given = on_real_logs(
        __doc__, arguments, only="", json=Path, timeout=900.0, estimators="", out=Path("filters.jsonl")
    )
    wanted = [case for case in cases(given.data) if given.only in case.name]
    if given.estimators:
        jobs = {
            (case.name, estimator): (case, estimator, given.timeout)
            for case in wanted
            for estimator in given.estimators.split(",")
            if case.note != EXPERT
        }
        results = campaign(jobs, run_estimator, lambda row: (row["name"], row["method"]), given, note)
        publish(table_of_estimators(results), "real.py", given.write)
        return int(not all(row["clean"] for row in results))
    rows = []
    for case in wanted:
        with tempfile.TemporaryDirectory() as scratch:
            rows.append(run(case, Path(scratch), given.timeout))
        note(table(rows[-1:]).splitlines()[-1])
    met = sum(not misses(row) for row in rows)
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    text = f"{table(rows)}\n\ndynid {dynid.__version__}: {met} of {len(rows)} rows meet their goals."
    publish(text, "real.py", given.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
