"""Plug-ins as their authors write them today, one file a sort in `plugins`, keep working.

They import what docs/design.md says and nothing else, and are found as those of an installed package are: by entry
points. A plug-in that has to be changed here has to be changed by its author, too.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynid
from dynid.base import registry
from tests.baseline.records import command, stored

PLUGINS = Path(__file__).parent / "plugins"
# Group -> names and places. Diagnoses and sections of the report have no entry points: they are handed over.
ENTRY_POINTS = {
    "dynid.terms": {
        "frozen_quadratic": "frozen_term:Quadratic",
        "frozen_arctangent": "frozen_term:Arctangent",
    },
    "dynid.rows": {"frozen_power": "frozen_rows:JointPowerRows"},
    "dynid.estimators": {"frozen_trimmed": "frozen_estimator:WithoutWorstBlocks"},
    "dynid.constraints": {"frozen_heavy": "frozen_constraint:AtLeastAsHeavy"},
    "dynid.rules": {"frozen_light": "frozen_rule:light"},
    "dynid.readers": {"frozen": "frozen_reader:JsonReader"},
    "dynid.robots": {"pendulums": "frozen_format:Pendulums"},
    "dynid.presets": {"frozen": "frozen_preset:PRESET"},
    "dynid.commands": {"frozen-greet": "frozen_command:greet"},
}
# Imported by the plug-ins beyond what the examples of docs/extending.md import: its text names these.
NAMED_IN_TEXT = {"dynid.base.options:option", "dynid.layouts.presets:PresetFile"}
# Documented before dynid 0.2, and still there for plug-ins of that time.
NAMED_BEFORE = {"dynid.diagnosis.finding:ResidualFinding", "dynid.diagnosis.wording:level"}
# Modules with several public places that plug-ins are told to import from.
MODULES = (
    "dynid.base.options",
    "dynid.cli.plugins",
    "dynid.diagnosis.diagnosis",
    "dynid.estimate",
    "dynid.feasible",
    "dynid.feasible.catalogue",
    "dynid.feasible.cones",
    "dynid.feasible.constraints",
    "dynid.identification.settings",
    "dynid.layouts.presets",
    "dynid.log.files",
    "dynid.robot.formats",
    "dynid.rows",
    "dynid.rows.catalogue",
    "dynid.terms",
    "dynid.terms.catalogue",
    "dynid.testing",
)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plug-ins as an installed package; afterwards all registries as they were."""
    added = {what: dict(one._added) for what, one in registry._REGISTRIES.items()}
    info = tmp_path / "site" / "dynid_frozen-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dynid-frozen\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in kinds.items())
        for group, kinds in ENTRY_POINTS.items()
    ]
    (info / "entry_points.txt").write_text("".join(lines))
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.syspath_prepend(str(info.parent))
    yield
    for what, one in registry._REGISTRIES.items():
        one._added.clear()
        one._added.update(added.get(what, {}))
    for name in [name for name in sys.modules if name.startswith("frozen_")]:
        del sys.modules[name]


def identified(folder: Path, robot: Path, log: Path, text: str) -> tuple[dynid.Result, dict[str, str]]:
    """A run with an experiment file, and the plug-ins that it says it needs: sort -> name."""
    config, run = folder / "experiment.toml", folder / "run"
    config.write_text(text)
    ended = command("identify", robot, log, "--no-auto", "--config", config, "--out", run)
    assert ended.code == 0, ended.err
    needs = json.loads((run / "run.json").read_text())["provenance"]["plugins"]
    assert {one["package"] for one in needs} == {"dynid-frozen 1.0"}
    return dynid.load(run), {one["kind"]: one["name"] for one in needs}


def test_a_term_rows_and_a_constraint(robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    result, needs = identified(
        tmp_path,
        robot_file,
        train_log,
        """
        [model]
        terms = [
            "rigid_body", "viscous", { term = "coulomb", width = 0.02 },
            { term = "frozen_quadratic", above = 0.1 },
        ]
        rows = { rows = "frozen_power", share = 0.5 }
        [estimate]
        constraints = [{ constraint = "frozen_heavy", a = 2, b = 1 }]
        """,
    )
    assert needs == {"term": "frozen_quadratic", "rows": "frozen_power", "constraint": "frozen_heavy"}
    values = dict(zip([one.name for one in result.estimate.columns], result.estimate.parameters, strict=True))
    assert {"fq1", "fq2"} <= set(values)
    # Without the constraint the second body is the lighter one.
    assert values["m2"] >= values["m1"] - 1e-6
    ended = command("export", tmp_path / "run", "--to", tmp_path / "model.c")
    assert ended.code == 0, ended.err
    assert "frozen_quadratic" in ended.err


def test_a_curve_with_a_shape(robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    from dynid.identification.settings import DEFAULT_TERMS, Settings
    from dynid.terms.catalogue import CATALOGUE

    robot = dynid.load_robot(robot_file)
    kind: Any = CATALOGUE["frozen_arctangent"]
    curve = kind(joints=("elbow",))
    result = dynid.identify(
        robot, dynid.read_log(train_log, robot), Settings(terms=DEFAULT_TERMS + curve), threads=1
    )
    (shape,) = result.shapes
    assert 0.0 < np.ravel(shape.value)[-1] < 1.0
    result.export(tmp_path / "model.c")
    assert "atan(" in (tmp_path / "model.c").read_text()


def test_an_estimator(robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    text = '[estimate]\nmethod = "frozen_trimmed"\nshare = 0.3\n'
    result, needs = identified(tmp_path, robot_file, train_log, text)
    assert needs == {"estimator": "frozen_trimmed"}
    assert result.estimate.method == "frozen_trimmed"
    (tmp_path / "experiment.toml").write_text(text.replace("0.3", "0.7"))
    words = ("--config", tmp_path / "experiment.toml", "--out", tmp_path / "no")
    assert command("identify", robot_file, train_log, *words).code == 3


def test_a_reader(robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    robot = dynid.load_robot(robot_file)
    log = dynid.read_log(train_log, robot)
    whole = log.read(log.trajectories[0])
    assert whole.tau is not None
    data = {"t": whole.t.tolist()}
    for i, joint in enumerate(robot.joint_names):
        data |= {f"q_{joint}": whole.q[:, i].tolist(), f"tau_{joint}": whole.tau[:, i].tolist()}
    (tmp_path / "train.frozen").write_text(json.dumps(data))
    result, needs = identified(tmp_path, robot_file, tmp_path / "train.frozen", "")
    assert needs == {"reader": "frozen"}
    again = dynid.identify(robot, log, dynid.Settings(automatic=False), threads=1)
    np.testing.assert_allclose(result.estimate.value, again.estimate.value, rtol=1e-9)


def test_a_robot_format(tmp_path: Path) -> None:
    (tmp_path / "two.pendulums").write_text('<pendulums><rod length="0.5"/><rod length="0.3"/></pendulums>')
    robot = dynid.load_robot(tmp_path / "two.pendulums", lock={"pivot2": 0.5})
    assert robot.joint_names == ("pivot1",)
    assert command("inspect", tmp_path / "two.pendulums").code == 0


def test_a_preset(robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    robot = dynid.load_robot(robot_file)
    log = dynid.read_log(train_log, robot)
    whole = log.read(log.trajectories[0])
    assert whole.tau is not None
    columns = [whole.t, *np.rad2deg(whole.q).T, *whole.tau.T]
    np.savetxt(
        tmp_path / "log.csv",
        np.stack(columns, axis=1),
        delimiter=",",
        header="clock,ang0,ang1,trq0,trq1",
        comments="",
    )
    ended = command("init", robot_file, tmp_path / "log.csv", "--out", tmp_path / "experiment.toml")
    assert ended.code == 0, ended.err
    text = (tmp_path / "experiment.toml").read_text()
    assert "the recorder of the baseline" in text
    assert 'unit = "deg"' in text


def test_a_rule(robot_file: Path, tmp_path: Path) -> None:
    (tmp_path / "coefficients.csv").write_text("formula,value\nmcx2,0.15\nmcy2,0.02\nIzz2,0.0329\n")
    words = ("--method", "penalty", "--runs", 1, "--total-mass", 1, 5, "--rule", "frozen_light")
    out = tmp_path / "bodies.csv"
    ended = command("retrieve", robot_file, tmp_path / "coefficients.csv", *words, "--out", out)
    assert ended.code == 0, ended.err
    mass = {line.split(",")[0]: float(line.split(",")[2]) for line in out.read_text().splitlines()[1:]}
    assert mass["m2"] <= 0.5 + 1e-6


def test_a_command() -> None:
    assert command("frozen-greet", "arm", "--loud").out == "hello arm!\n"
    assert "frozen-greet" in command("--help").out


def test_a_diagnosis_and_a_section(robot_file: Path, train_log: Path) -> None:
    from frozen_diagnosis import FollowsNeighbour  # type: ignore[import-not-found]  # on the path of the test
    from frozen_section import WeightsSection  # type: ignore[import-not-found]  # on the path of the test

    from dynid.diagnosis.diagnosis import diagnose
    from dynid.diagnosis.residual_analysis import ResidualAnalysis
    from dynid.report.html import Chapter, page_html
    from dynid.report.section import Page

    robot = dynid.load_robot(robot_file)
    result = dynid.identify(
        robot, dynid.read_log(train_log, robot), dynid.Settings(automatic=False), threads=1
    )
    assert result.training.residuals is not None
    analysis = ResidualAnalysis(
        robot, result.terms, result.estimate, result.training.residuals, bandwidth=5.0
    )
    assert diagnose(analysis, (FollowsNeighbour(),)) is not None
    page, section = Page(), WeightsSection()
    chapters = [Chapter(section.anchor, section.title, section.render(result, page))]
    assert "Weights of the joints" in page_html("weights", "Weights", robot.name, chapters, page)


def test_suites_for_plug_ins() -> None:
    from frozen_rows import JointPowerRows  # type: ignore[import-not-found]  # on the path of the test
    from frozen_term import Quadratic  # type: ignore[import-not-found]  # on the path of the test

    from dynid.testing import RowsContract, TermContract

    class TermSuite(TermContract):
        def term(self):  # type: ignore[no-untyped-def]  # as in docs/design.md
            return Quadratic()

        def torque(self, robot, samples, theta):  # type: ignore[no-untyped-def]  # as in docs/design.md
            return theta * np.sign(samples.dq) * samples.dq**2

    class RowsSuite(RowsContract):
        def rows(self):  # type: ignore[no-untyped-def]  # as in docs/design.md
            return JointPowerRows()

    TermSuite().test_columns_describe_the_parameters()
    RowsSuite().test_exact_motion_fulfils_the_equations()


def test_plugins_import_what_the_documentation_says() -> None:
    told = {*stored("imports")["extending.md"], *NAMED_IN_TEXT, *NAMED_BEFORE}
    for path in sorted(PLUGINS.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dynid"):
                assert {f"{node.module}:{one.name}" for one in node.names} <= told, path.name


@pytest.mark.parametrize("module", MODULES)
def test_modules_of_plug_ins_can_be_imported(module: str) -> None:
    __import__(module)
