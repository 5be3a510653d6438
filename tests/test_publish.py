"""Tables and figures for publications: the values of the run, in the notation of the field."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.api.plots import PLOTS
from dynid.api.publish import BIBTEX, bibtex, latex_symbol, rows, works_to_cite
from dynid.base import RefusedError, UsageError
from dynid.identification import DEFAULT_TERMS, Settings
from dynid.log import read_log
from dynid.run import joint_values
from dynid.run.links import links
from dynid.signals import Preparation
from dynid.testing import random_robot, simulated_log
from dynid.verbs import overview_lines
from tests.command_line import Run

# Offsets, viscous and Coulomb friction of the simulated robot, which its description does not state.
UNKNOWN = 0.5


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    columns = DEFAULT_TERMS.columns(random_robot(23, 3, 0.0))
    return np.array([c.prior if np.isfinite(c.prior) else UNKNOWN for c in columns])


@pytest.fixture(scope="module")
def result(truth: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> dynid.Result:
    robot, folder = random_robot(23, 3, 0.0), tmp_path_factory.mktemp("logs")
    logs = [
        read_log(
            simulated_log(folder / f"{seed}.parquet", robot, DEFAULT_TERMS, truth, seconds=10.0, seed=seed),
            robot,
        )
        for seed in (1, 2)
    ]
    settings = Settings(terms=DEFAULT_TERMS, preparation=Preparation(cutoff=6.0))
    return dynid.identify(robot, logs[0], settings, validation=logs[1])


def test_the_csv_has_every_value_with_its_interval(result: dynid.Result, tmp_path: Path) -> None:
    result.export(tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    base = [line for line in lines if line["table"] == "base"]
    np.testing.assert_array_equal([float(line["value"]) for line in base], result.estimate.value)
    np.testing.assert_array_equal(
        [float(line["half_width95"]) for line in base], result.estimate.half_width()
    )
    joints = [line for line in lines if line["table"] == "joints"]
    assert [(line["joint"], line["symbol"]) for line in joints] == [
        (value.joint, value.column.name) for value in joint_values(result)
    ]
    links = [line for line in lines if line["table"] == "links"]
    assert {line["link"] for line in links} == set(result.robot.body_names)
    assert len(links) == 10 * len(result.robot.body_names)


def test_tables_of_each_format_have_the_same_rows(result: dynid.Result, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    for suffix in ("md", "tex", "xlsx"):
        result.export(tmp_path / f"all.{suffix}")
    count = {table: len(result.table(table)["symbol"]) for table in ("base", "links", "joints")}
    markdown, latex = ((tmp_path / f"all.{suffix}").read_text() for suffix in ("md", "tex"))
    assert markdown.count("\n| ") - 3 + markdown.startswith("| ") == sum(count.values())
    assert len(re.findall(r"^.* & .* & \$.*\$ & \$.*\$ & .* \\\\$", latex, re.M)) == sum(count.values())
    assert latex.count("$") % 2 == 0
    workbook = openpyxl.load_workbook(tmp_path / "all.xlsx")
    assert {sheet.title: sheet.max_row - 1 for sheet in workbook} == count


def test_a_table_replaces_nothing_and_names_what_there_is(result: dynid.Result, tmp_path: Path) -> None:
    (tmp_path / "here.csv").write_text("mine")
    with pytest.raises(RefusedError, match="output-exists"):
        result.export(tmp_path / "here.csv")
    assert (tmp_path / "here.csv").read_text() == "mine"
    with pytest.raises(UsageError, match="base, links, joints"):
        result.table("masses")
    with pytest.raises(UsageError, match="torque, residuals, friction, parameters"):
        result.plot("torques")


@pytest.mark.parametrize(
    ("formula", "latex"),
    [
        ("Izz1 + Ia1", "I_{zz,1} + I_{a,1}"),
        ("mcx3 - 0.42 m4", "m_{3} c_{x,3} - 0.42 m_{4}"),
        ("fv12", "f_{v,12}"),
        ("1.5e-05 mcz2", r"1.5 10^{-5}  m_{2} c_{z,2}"),
    ],
)
def test_symbols_are_those_of_the_field(formula: str, latex: str) -> None:
    assert latex_symbol(formula) == latex


def test_the_interval_of_friction_has_the_friction_that_was_simulated(
    result: dynid.Result, truth: np.ndarray
) -> None:
    """The interval is of the odd part: a constant torque may be of gravity as well."""
    names = [column.name for column in DEFAULT_TERMS.columns(result.robot)]
    for j, axes in enumerate(PLOTS["friction"](result)):
        cloud, band, curve = axes.curves
        odd = (curve.y - curve.y[::-1]) / 2.0
        fast = np.abs(curve.x) > 0.2 * np.abs(curve.x).max()  # beyond the smoothed change of sign
        fv, fc = (truth[names.index(f"{name}{j + 1}")] for name in ("fv", "fc"))
        assert band.half is not None
        within = np.abs(odd - fv * curve.x - fc * np.sign(curve.x)) <= band.half
        assert within[fast].mean() > 0.9
        assert np.all(band.half[fast] < 3.0 * np.abs(odd[fast]))  # an interval that says something
        # The cloud lies about the curve as the residuals lie about zero.
        spread = np.std(cloud.y - np.interp(cloud.x, curve.x, curve.y))
        assert spread == pytest.approx(result.validations[0].scores.rms[j], rel=0.2)


@pytest.mark.parametrize("kind", ["torque", "residuals", "friction", "parameters"])
def test_figures_for_papers_are_vectors_with_the_same_panels(
    kind: str, result: dynid.Result, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    figure, notebook = result.plot(kind, library="matplotlib"), result.plot(kind)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [note.text.replace("&lt;", "<") for note in notebook.layout.annotations]
    figure.savefig(tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_what_a_run_used_is_cited(result: dynid.Result, run: Run, tmp_path: Path) -> None:
    dynid.save(result, tmp_path / "run")
    done = run("cite", tmp_path / "run")
    assert done.code == 0
    assert done.out.strip() == result.cite().strip()
    assert set(re.findall(r"@\w+\{(\w+),", done.out)) == set(works_to_cite(result)) < set(BIBTEX)
    assert "wensing2018linear" in works_to_cite(result)
    every = bibtex(works_to_cite())
    assert every.count("{") == every.count("}")


def test_links_stand_beside_the_joints_that_move_them_though_one_body_has_no_mass(tmp_path: Path) -> None:
    robot = random_robot(23, 3, 0.0)
    bodies = robot.inertia_prior.copy()
    bodies[0] = 0.0
    robot = replace(robot, inertia_prior=bodies)
    columns = DEFAULT_TERMS.columns(robot)
    theta = np.array([c.prior if np.isfinite(c.prior) else UNKNOWN for c in columns])
    path = simulated_log(tmp_path / "log.parquet", robot, DEFAULT_TERMS, theta, seconds=10.0, seed=1)
    settings = Settings(terms=DEFAULT_TERMS, preparation=Preparation(cutoff=6.0))
    result = dynid.identify(robot, read_log(path, robot), settings)
    every_link, _ = links(result)
    assert [link.name for link in every_link] == list(robot.body_names[1:])
    table = {(row.link, row.symbol): row for row in rows(result, "links")}
    names = [column.name for column in result.estimate.columns]
    for i, link in enumerate(every_link, 1):
        assert table[link.name, "m"].joint == robot.tree_joint_names[i]
        assert table[link.name, "Izz"].value == result.estimate.parameters[names.index(f"Izz{i + 1}")]
        (line,) = [line for line in overview_lines(result) if f" {link.name} " in line]
        assert line.split()[0] == robot.tree_joint_names[i]
