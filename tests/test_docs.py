"""The documentation is true: its examples run, its tables agree with the code, its links lead somewhere."""

from __future__ import annotations

import ast
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from pydantic import BaseModel

import dynid
from dynid.base import CLAIMS, KINDS, Diagnostics, Strict, errors, read_table, units
from dynid.cli.main import app
from dynid.diagnosis import every_diagnosis
from dynid.estimate import Origin, Sums, Word
from dynid.excitation import prior_theta
from dynid.exporters import export_parameters
from dynid.factor import Category
from dynid.identification import DEFAULT_TERMS, Experiment
from dynid.identification import schema as experiment_schema
from dynid.kernel import gravity_torque
from dynid.lab import rig, setup
from dynid.log import MotorCalibration, calibration_json, canonical_columns, mapping, read_log, write_log
from dynid.report.sections import SECTIONS
from dynid.robot import load_example, load_robot, toml_schema
from dynid.run import scores_to_dict, sections
from dynid.signals import coherence as cutoff
from dynid.signals import prepare, state_cutoff
from dynid.terms import CATALOGUE
from dynid.verbs import run_demo
from tests.command_line import Run, make_log
from tests.robot.shipped import shipped

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MADE = runpy.run_path(str(DOCS / "make_tables.py"))
EXPERIMENT_TABLES: dict[str, type[BaseModel]] = MADE["EXPERIMENT_TABLES"]
PAGES = sorted(DOCS.glob("*.md"))
FINDINGS = sorted(DOCS.glob("findings/*.md"))
TEXTS = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in (*PAGES, *FINDINGS)}

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)

ROBOT_TABLES: dict[str, type[BaseModel]] = {
    "Top level": toml_schema.Description,
    "`[base]`": toml_schema.Base,
    "`[[joint]]`": toml_schema.Joint,
    "`[joint.inertial]`": toml_schema.Inertial,
    "`[joint.inertial.inertia]`": toml_schema.InertiaEntries,
    "`[joint.drive]`": toml_schema.DriveEntry,
    "`[joint.drive.linkage]`": toml_schema.LinkageEntry,
    "`[joint.drive.table]`": toml_schema.TableEntry,
    "`[[drive.rod]]`": toml_schema.RodEntries,
    "`[drive.rod.crank]`": toml_schema.Crank,
    "`[drive.rod.end]`": toml_schema.PointOn,
    "`[[drive.coupling]]`": toml_schema.Coupling,
    "`[joint.friction]`": toml_schema.Friction,
    "`[[fixed]]`": toml_schema.Fixed,
    "`[drive]`": toml_schema.WholeDrive,
}

SIMULATION_TABLES: dict[str, type[BaseModel]] = {
    "Top level of sensor files": rig.SensorFile,
    "Sensors `[velocity]`": rig.Channel,
    "Sensors `[position]`": rig.PositionChannel,
    "Sensors `[motor_position]`": rig.MotorChannel,
    "Sensors `[effort]`": rig.EffortChannel,
    "Sensors `[temperature]`": rig.TemperatureChannel,
    "Sensors `[rows]`": rig.RowsSection,
    "Top level of plant files": setup.PlantFile,
    "Plant `[friction]`": setup.FrictionSection,
    "Plant `[elastic]`": setup.ElasticSection,
    "Plant `[payload]`": setup.PayloadSection,
    "Plant `[integrator]`": setup.IntegratorSection,
    "Top level of controller files": setup.ControllerFile,
}


def blocks(page: str, kind: str) -> list[str]:
    """The fenced blocks of a page with that info string."""
    return [body for info, body in FENCE.findall(TEXTS[page]) if info.strip() == kind]


def everywhere(kind: str) -> list[Any]:
    """(page, block) of all pages, as test parameters."""
    return [
        pytest.param(page, body, id=f"{page}-{i}")
        for page in TEXTS
        for i, body in enumerate(blocks(page, kind))
    ]


def section(page: str, title: str) -> str:
    """The text under a heading, up to the next one."""
    parts = HEADING.split(FENCE.sub("", TEXTS[page]))
    found = [body for head, body in zip(parts[2::3], parts[3::3], strict=True) if head == title]
    assert len(found) == 1, f"{page} has {len(found)} headings '{title}'"
    return str(found[0])


def table(text: str, first: str) -> list[list[str]]:
    """Rows of the table whose first column has that heading."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return rows


def code(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


# Options of every command, which the command page explains once.
EVERYWHERE = {"--json", "--quiet", "-q", "--verbose", "-v"}


def commands() -> dict[str, set[str]]:
    """Options by command, the program's own under ""."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group)
    subcommands = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return {name: options_of(command) - EVERYWHERE for name, command in [("", group), *subcommands]}


def options_of(command: Any) -> set[str]:
    """The options of one command, long and short, and those that switch something off."""
    names = [name for param in command.params for name in (*param.opts, *param.secondary_opts)]
    return {name for name in names if name.startswith("-")}


def kinds_in(module: Any, base: type) -> set[Any]:
    """The classes of a module that derive from a base."""
    return {one for one in vars(module).values() if isinstance(one, type) and issubclass(one, base)}


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the interpreter of these tests in a folder."""
    call = [sys.executable, *arguments]
    return subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of the demo."""
    return run_demo(tmp_path_factory.mktemp("docs") / "demo", fast=True).folder


# Runs a script with a demo that was made already.
WITH_DEMO = """
import runpy, shutil, sys
import dynid.verbs.demo
def copied(out, fast=False):
    assert fast
    shutil.copytree(demo, out)
script, demo = sys.argv[1:]
dynid.verbs.demo.run_demo = copied
runpy.run_path(script, run_name="__main__")
"""


def apart(page: str) -> bool:
    """Whether the examples of a page change their process, by what they register or load."""
    return any(re.search(r"\bregister\(|\bsys\.|\bsubprocess\b", body) for body in blocks(page, "python"))


# Pages whose logs are longer than their code needs in order to run and their assertions in order to hold.
LESS = {
    "tutorial-servo.md": (
        "teleoperated(60.0, seed=1), teleoperated(20.0, seed=2)",
        "teleoperated(25.0, seed=1), teleoperated(8.0, seed=2)",
    ),
}
# A tutorial whose commands run on the files that its examples write.
WITH_COMMANDS = "tutorial-tool.md"
# Its commands start workers of Dask on seventy logs; tests/fleet and the command page start some on fewer.
FLEET = "tutorial-fleet.md"


@pytest.mark.parametrize(
    ("page", "whole"),
    [
        *((page, page not in LESS) for page in TEXTS if blocks(page, "python") and page != FLEET),
        *(pytest.param(page, True, marks=pytest.mark.slow) for page in (*LESS, FLEET)),
    ],
)
def test_python_examples_run_in_the_order_of_their_page(
    page: str, whole: bool, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """In a process of their own where they would leave something behind; else in this one, the demo made once."""
    script, text = tmp_path / "example.py", "\n".join(blocks(page, "python"))
    if not whole:
        much, less = LESS[page]
        assert text.count(much) == 1
        text = text.replace(much, less)
    script.write_text(text, encoding="utf-8")
    if apart(page):
        done = python(tmp_path, "-W", "error", "-c", WITH_DEMO, script.name, str(demo))
        assert done.returncode == 0, done.stderr
        return

    def copied(out: Path | str, fast: bool = False) -> None:
        assert fast
        shutil.copytree(demo, out)

    monkeypatch.setattr("dynid.verbs.demo.run_demo", copied)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(script.name, run_name="__main__")
    for words in (words for where, words in console_lines() if where == page == WITH_COMMANDS):
        done = run(*words[1:])
        assert done.code == 0, done.err


def test_the_python_of_the_readme_runs_as_it_stands(robot_file: Path, tmp_path: Path) -> None:
    robot = load_robot(robot_file)
    described = prior_theta(robot, DEFAULT_TERMS)
    assert described is not None
    export_parameters(robot, DEFAULT_TERMS, described, tmp_path / "arm.urdf")
    log = read_log(make_log(robot_file, tmp_path / "motion.parquet", seed=1), robot)
    chunk = log.read(log.trajectories[0])
    assert chunk.tau is not None
    np.savez(tmp_path / "motion.npz", t=chunk.t, q=chunk.q, tau=chunk.tau)
    script = tmp_path / "example.py"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = [body for info, body in FENCE.findall(readme) if info.strip() == "python"]
    assert found
    script.write_text("\n".join(found), encoding="utf-8")
    done = python(tmp_path, "-W", "error", script.name)
    assert done.returncode == 0, done.stderr
    again = dynid.load(str(tmp_path / "run"))
    assert done.stdout == f"{again!r}\n"


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    kinds = {info.strip() for text in TEXTS.values() for info, _ in FENCE.findall(text)}
    simulation = {"toml sensors", "toml plant", "toml controller"}
    assert kinds <= {"python", "toml robot", "toml experiment", "xml", "console"} | simulation
    assert {"python", "toml robot", "toml experiment", "console"} <= kinds


@pytest.mark.parametrize(("page", "text"), everywhere("toml robot"))
def test_robot_examples_load_without_a_warning(page: str, text: str, tmp_path: Path) -> None:
    for xml in blocks(page, "xml"):
        (tmp_path / name_of(xml)).write_text(xml, encoding="utf-8")
    path = tmp_path / name_of(text)
    path.write_text(text, encoding="utf-8")
    diagnostics = Diagnostics()
    robot = load_robot(path, diagnostics=diagnostics)
    assert robot.n >= 1
    assert [str(one) for one in diagnostics.warnings] == []


@pytest.mark.parametrize(("page", "text"), everywhere("toml experiment"))
def test_experiment_examples_are_valid(page: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name_of(text)
    path.write_text(text, encoding="utf-8")
    legged = text.startswith("# go2")
    robot = load_robot(shipped("go2_description/urdf/go2.urdf")) if legged else load_example("arm7")
    motors = {name: MotorCalibration(range_min=1000, range_max=3000) for name in robot.joint_names}
    (tmp_path / "my_follower.json").write_bytes(calibration_json(motors))
    experiment = Experiment.read(path)
    settings = experiment.settings()
    assert settings.model.columns(robot)
    log = experiment.content.log
    assert log is not None
    resolved = mapping.channel_map(log, robot, str(path), experiment.lines)
    assert (
        set(resolved.effort or resolved.command_position) == set(resolved.position) == set(robot.joint_names)
    )
    assert set(settings.model.channels()) <= set(resolved.extra)


def test_simulation_examples_fit_together(tmp_path: Path) -> None:
    files = {kind: tmp_path / f"{kind}.toml" for kind in ("sensors", "plant", "controller")}
    for kind, path in files.items():
        path.write_text(blocks("simulation.md", f"toml {kind}")[0], encoding="utf-8")
    robot = load_example("arm7")
    rig.Rig.read(files["sensors"]).check(robot)
    built = setup.read_setup(robot, str(files["controller"]), files["plant"])
    assert built.plant.elasticity is not None


def name_of(block: str) -> str:
    """The file name in a block's first line."""
    found = re.search(r"[\w.]+\.(toml|urdf)", block.splitlines()[0])
    assert found, block.splitlines()[0]
    return found[0]


def test_tables_made_from_settings_are_in_step() -> None:
    for page, made in MADE["PAGES"].items():
        assert made(TEXTS[page]) == TEXTS[page], f"run docs/make_tables.py: {page} is behind the code"


@pytest.mark.parametrize(
    ("page", "title", "model"),
    [("robot-keys.md", title, model) for title, model in ROBOT_TABLES.items()]
    + [("simulation.md", title, model) for title, model in SIMULATION_TABLES.items()],
)
def test_tables_of_keys_agree_with_the_schema(page: str, title: str, model: type[BaseModel]) -> None:
    rows = {code(key)[0]: default for key, _, default, *_ in table(section(page, title), "key")}
    known = {info.alias or name: info for name, info in model.model_fields.items()}
    assert list(rows) == list(known)
    for name, info in known.items():
        assert rows[name] == MADE["written"](info), f"default of {name}"


def test_every_table_of_the_schemas_is_documented() -> None:
    top = {"robot", "drive", "log", "data", "prepare", "model", "statics", "estimate"}
    assert set(experiment_schema.ExperimentFile.model_fields) == top | {"plugins", "accept"}
    assert all(any(title.startswith(f"`[{name}]`") for title in EXPERIMENT_TABLES) for name in top)
    assert kinds_in(toml_schema, Strict) - {Strict} == set(ROBOT_TABLES.values())


def test_terms_and_their_options_are_documented() -> None:
    text = section("experiment-keys.md", "Terms")
    rows = {code(term)[0]: options for term, options, _ in table(text, "term")}
    assert list(rows) == list(CATALOGUE)
    for name, kind in CATALOGUE.items():
        options = {f.name: f for f in fields(kind) if f.name != "name"}  # type: ignore[arg-type]  # dataclasses
        assert set(code(rows[name])) == set(options)
        required = [key for key, f in options.items() if f.default is MISSING]
        assert ("(required)" in rows[name]) == bool(required)


def test_units_are_documented() -> None:
    rows = {quantity: code(cell) for quantity, cell in table(section("experiment.md", "Units"), "quantity")}
    assert rows == {quantity: list(factors) for quantity, factors in units._FACTORS.items()}


def test_numbers_of_the_signal_chain_are_the_ones_in_use() -> None:
    text = " ".join(section("experiment.md", "`[prepare]`: signals").split())
    for phrase in (
        f"fewer than {prepare.STATE_OVERSAMPLING:g} samples",
        f"fewer than {prepare.FINAL_OVERSAMPLING:g} samples",
        f"{100 * cutoff.SHARE:g} % of its velocity",
        f"up to {cutoff.HIGHEST_MOTION:g} Hz",
        f"between {cutoff.LEAST:g} and {cutoff.GREATEST:g} Hz",
    ):
        assert phrase in text
    assert ("ten times" in text) == (cutoff.MARGIN == 10)
    assert ("filtered at four times that" in text) == (state_cutoff.SHARPER == 4)


def test_words_of_verdicts_categories_and_scores_are_documented() -> None:
    text = TEXTS["conventions.md"]
    for word in (*Word, *Category, *Origin, "good", "usable", "poor"):
        assert f"`{word}`" in text
    documented = {code(row[0])[0] for row in table(section("conventions.md", "Scores"), "name")}
    plain = scores_to_dict(some_scores())
    assert documented | {"total_relative", "total_nmse"} == set(plain) - {"origin", "joints", "trajectories"}


def some_scores() -> Any:
    """Scores of two samples."""
    tau = np.array([[1.0], [2.0]])
    return Sums.of_arrays(tau, 0.9 * tau).scores(Origin.TRAINING, ("a",), ("t",))


def levels_in(call: ast.Call) -> set[str]:
    """Levels that a call names, of those that are printed with a code."""
    named = {
        one.attr.lower()
        for one in ast.walk(call)
        if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "Level"
    }
    return named & {"note", "warning", "doubt"}


def printed() -> dict[str, set[str]]:
    """As what each code appears, by the calls that name it in the source."""
    levels = {"warn": "warning", "note": "note", "claim": "doubt"}
    found: dict[str, set[str]] = {}
    calls = (
        node
        for path in sorted((ROOT / "src" / "dynid").rglob("*.py"))
        if "testing" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    )
    for node in calls:
        inner = node.args[0] if ast.unparse(node.func) == "Hypothesis" else None
        named_in = inner.args if isinstance(inner, ast.Call) else node.args
        texts = [one.value for one in named_in if isinstance(one, ast.Constant)]
        if (
            not texts
            or not isinstance(texts[0], str)
            or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", texts[0])
        ):
            continue
        name = ast.unparse(node.func).split(".")[-1]
        first = ast.unparse(node.args[0]) == repr(texts[0])
        named = found.setdefault(texts[0], set())
        if name in levels and first:
            named.add(levels[name])
        elif (name in ERRORS or name == "fail") and first:
            named.add("error")
        elif name == "Finding" and "title" in {keyword.arg for keyword in node.keywords}:
            # A title is the heading of a finding of the verdict; findings of a log have none.
            named.add("verdict")
        elif name in ("Finding", "Hypothesis"):
            named |= levels_in(node)
        elif name == "Rival":
            named.add("doubt")
        elif name == "FeatureGroup":
            named.add("finding")
    return {code: kinds for code, kinds in found.items() if kinds}


ERRORS = {kind.__name__ for kind in kinds_in(errors, errors.DynidError)}
EXPLAINED = {code: one for known in sections().values() for one in known for code in one.codes}


def test_every_code_is_explained_once_as_what_it_appears() -> None:
    every = [code for known in sections().values() for one in known for code in one.codes]
    assert len(every) == len(EXPLAINED), sorted(code for code in EXPLAINED if every.count(code) > 1)
    found = printed()
    assert len(found) > 500
    assert sorted(set(found) - set(EXPLAINED)) == []
    wrong = {code: kinds - set(EXPLAINED[code].kinds) for code, kinds in found.items()}
    assert {code: kinds for code, kinds in wrong.items() if kinds} == {}
    assert {kind for one in EXPLAINED.values() for kind in one.kinds} == set(KINDS)


def test_every_explanation_is_of_a_code_that_there_is() -> None:
    paths = sorted((ROOT / "src").rglob("*.py"))
    source = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    assert {code for code in EXPLAINED if f'"{code}"' not in source} == set()


def test_claims_diagnoses_and_verdicts_are_explained_whole() -> None:
    assert {code for code, one in EXPLAINED.items() if "doubt" in one.kinds} == set(CLAIMS)
    assert {code for code, one in EXPLAINED.items() if one.accept} == set(CLAIMS)
    assert {one.identifier for one in every_diagnosis()} <= set(EXPLAINED)
    assert all(one.sure for one in EXPLAINED.values() if {"doubt", "finding"} & set(one.kinds))
    assert all(one.means and one.do for one in EXPLAINED.values())


def test_explanations_name_commands_and_options_that_exist() -> None:
    known = commands()
    every = set().union(*known.values(), EVERYWHERE)
    for one in EXPLAINED.values():
        text = " ".join((one.means, one.sure, one.do, one.accept))
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) <= every, one.code
        assert set(re.findall(r"`dynid ([a-z]+)", text)) <= set(known), one.code


def console_lines() -> Iterator[tuple[str, list[str]]]:
    """(page, words) of every command line."""
    for page in TEXTS:
        for block in blocks(page, "console"):
            for line in block.splitlines():
                yield page, shlex.split(line)


def test_command_lines_use_commands_and_options_that_exist() -> None:
    known = commands()
    for page, words in console_lines():
        assert words[0] == "dynid", page
        command = words[1] if not words[1].startswith("-") else ""
        assert command in known, (page, words)
        used = {word for word in words[1:] if word.startswith("-")} - {"--help"}
        assert used <= known[command] | EVERYWHERE, (page, words)


def test_options_named_anywhere_exist_and_all_are_documented() -> None:
    known = commands()
    every = set().union(*known.values(), EVERYWHERE) | {"--help"}
    for page, text in TEXTS.items():
        spans = code(FENCE.sub("", text))
        named = {option for span in spans for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", span)}
        assert named <= every, page
        named_commands = {word for span in spans for word in re.findall(r"^dynid ([a-z]+)", span)}
        assert named_commands <= set(known), page
    assert documented_options("Options of every command") == EVERYWHERE
    for command, options in known.items():
        if command:
            assert documented_options(f"`dynid {command}`") == options, command


def documented_options(title: str) -> set[str]:
    """Options in the table of a section of the command page, and the shared ones that the section refers to."""
    text = section("cli.md", title)
    rows = table(text, "option") if "| option |" in text else []
    options = {option for row in rows for option in code(row[0])}
    shared = re.search(r"^Also: (.*?)\.$", text, re.MULTILINE | re.DOTALL)
    if shared is not None:
        for row in table(section("cli.md", "Shared options"), "option"):
            names = code(row[0])
            if names[0] in code(shared[1]):
                options |= set(names)
        for words, group in (("robot options", "Robot options"), ("settings", "Settings as options")):
            if f"[{words}]" in shared[1]:
                options |= documented_options(group)
    return options


NOTEBOOKS = runpy.run_path(str(DOCS / "make_notebooks.py"))


@pytest.mark.parametrize("page", NOTEBOOKS["PAGES"])
def test_notebooks_are_their_pages(page: str) -> None:
    """Their cells are the page's blocks, which run in a test of their own."""
    text = (DOCS / "notebooks" / f"{page}.ipynb").read_text(encoding="utf-8")
    assert text == NOTEBOOKS["notebook"](page, TEXTS[f"{page}.md"]), "run docs/make_notebooks.py"
    cells = [one for one in json.loads(text)["cells"] if one["cell_type"] == "code"]
    assert ["".join(one["source"]) + "\n" for one in cells] == blocks(f"{page}.md", "python")


def test_notebooks_are_valid() -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is in the extra docs")
    for page in NOTEBOOKS["PAGES"]:
        nbformat.validate(nbformat.read(DOCS / "notebooks" / f"{page}.ipynb", as_version=4))


def model_table(path: Path) -> None:
    """A table of gravity torque at random poses of the demo's arm, as a vendor's model would give it."""
    robot = load_example("arm7")
    q = np.random.default_rng(0).uniform(-2, 2, (200, robot.n))
    g = gravity_torque(robot.tree, robot.inertia_prior, q)
    header = [f"{kind}_{joint}" for kind in ("q", "g") for joint in robot.joint_names]
    np.savetxt(path, np.hstack([q, g]), delimiter=",", header=",".join(header), comments="")


def repeated_log(path: Path) -> None:
    """Four periods of five seconds of the demo's arm."""
    robot = load_example("arm7")
    t = np.arange(2001) / 100.0
    q = np.stack([np.sin(0.4 * np.pi * t + j) for j in range(robot.n)], axis=1)
    tau = gravity_torque(robot.tree, robot.inertia_prior, q)
    write_log(path, t, canonical_columns(robot.joint_names, q, tau=tau))


def motion_files(folder: Path) -> None:
    """Plan files of a short search, and of some poses."""
    search = "[search]\nstarts = 1\niterations = 3\n"
    (folder / "motion.toml").write_text(f"[motion]\nharmonics = 3\nfrequency = 0.25\n{search}")
    (folder / "poses.toml").write_text(f'[motion]\nfamily = "poses"\nposes = 5\n{search}')


def fleet_plan(folder: Path) -> None:
    """Plan of two days of one robot, by the run and the logs of the demo."""
    days = "".join(
        f'[[log]]\ntype = "arm"\nserial = "a"\ntime = 2026-03-0{day}T12:00:00Z\npath = "demo/logs/{name}.parquet"\n'
        for day, name in ((1, "train"), (2, "validate"))
    )
    (folder / "plan.toml").write_text(f'{days}[type.arm]\nmodel = "run"\n')


def test_the_command_lines_of_the_command_page_run(
    run: Run, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but that of the demo, which is made for other tests of this module as well."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo, tmp_path / "demo")
    failed = []
    motion_files(tmp_path)
    model_table(tmp_path / "model.csv")
    repeated_log(tmp_path / "repeated.parquet")
    fleet_plan(tmp_path)
    for page, words in console_lines():
        if page == "cli.md" and words[1] != "demo":
            template = words[-1] if words[1:3] == ["schema", "motion"] else ""
            if template:
                (tmp_path / template).unlink()
            done = run(*words[1:])
            failed += [f"{shlex.join(words)}: {done.err[-400:]}"] if done.code else []
            motion_files(tmp_path)  # short ones, in place of the template that a command wrote
    assert failed == []


def test_every_exit_code_is_documented() -> None:
    rows = table(section("cli.md", "Exit codes"), "code")
    codes = {kind.exit_code for kind in kinds_in(errors, errors.DynidError)}
    assert {int(row[0]) for row in rows} == codes | {0, 130} == {*range(8), 130}


def test_the_run_folder_is_documented(demo: Path) -> None:
    page = TEXTS["run-folder.md"]
    files = {code(row[0])[0] for row in table(page, "file")}
    # What other commands write into it later is not there yet.
    assert files - {"replay.json"} == {one.name for one in demo.iterdir()} - {"logs", "robot.toml"}
    for name in ("run.json", "model.json"):
        data = json.loads((demo / name).read_text(encoding="utf-8"))
        rows = {code(row[0])[0]: row[1] for row in table(section("run-folder.md", f"`{name}`"), "key")}
        assert set(rows) == set(data)
        for key in ("files", "provenance", "preparation", "log", "verdict") if name == "run.json" else ():
            assert set(data[key]) <= set(code(rows[key])), key
    model = json.loads((demo / "model.json").read_text(encoding="utf-8"))
    named = set(code(section("run-folder.md", "`model.json`")))
    assert set(model["estimate"]) | set(model["structural"]) <= named
    for name in ("parameters", "residuals", "factors"):
        text = section("run-folder.md", f"`{name}.parquet`")
        documented = {code(row[0])[0].replace("<joint>", "joint1") for row in table(text, "column")}
        columns = read_table(demo / f"{name}.parquet")
        assert documented == {one for one in columns if not re.search(r"_joint[2-9]$", one)}, name


def test_sections_of_the_report_are_documented() -> None:
    rows = table(section("run-folder.md", "The report"), "section")
    assert [code(row[0])[0] for row in rows] == [one.anchor for one in SECTIONS]


def anchor(title: str) -> str:
    """The address of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_links_lead_somewhere() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for page, text in {**TEXTS, "CHANGELOG.md": changes}.items():
        for target in re.findall(r"\]\(([^)]+)\)", FENCE.sub("", text)):
            if target.startswith("https://"):
                continue
            relative, _, place = target.partition("#")
            path = (DOCS / page).parent / relative if relative else DOCS / page
            assert path.is_file(), (page, target)
            if place:
                name = path.resolve().relative_to(DOCS).as_posix()
                titles = [title for _, title in HEADING.findall(FENCE.sub("", TEXTS[name]))]
                assert place in {anchor(title) for title in titles}, (page, target)


def test_every_page_is_on_the_map() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)", TEXTS["index.md"]))
    assert {page.name for page in PAGES} - {"index.md"} == linked


def test_the_python_reference_has_every_public_name() -> None:
    """And the module itself or the name, on one of the pages that the site makes from docstrings."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md")))
    whole = set(re.findall(r"^::: ([\w.]+)\n(?!    options)", text + "\n", re.MULTILINE))
    for module in ("dynid", "dynid.terms", "dynid.rows", "dynid.estimate", "dynid.dynamics", "dynid.testing"):
        if module not in whole:
            for name in import_module(module).__all__:
                listed = re.search(rf"^(::: {re.escape(module)}\.|        - ){name}$", text, re.MULTILINE)
                assert listed, f"{module}.{name} is on no page of docs/reference"


def test_files_named_in_the_design_exist() -> None:
    named = {span for span in code(FENCE.sub("", TEXTS["design.md"])) if re.fullmatch(r"[\w/]+\.py", span)}
    assert named
    for name in named:
        assert any((folder / name).is_file() for folder in (ROOT / "src" / "dynid", ROOT)), name


def test_no_page_speaks_of_a_machine() -> None:
    for page, text in TEXTS.items():
        assert not re.search(r"(?<![\w.])/(work|tmp|root|home|usr)\b", text), page
        assert all(ord(character) < 128 for character in text), page


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
