"""The table that users look for first: links and joints beside the description, and whom to believe."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, Float, Int, read_table
from dynid.estimate import MAP
from dynid.feasible import body_columns
from dynid.identification import Settings, identify
from dynid.log import Log
from dynid.report import Page, number
from dynid.report.sections.links import _row
from dynid.robot import load_robot, mesh_triangles, shapes
from dynid.run import DATAS, PRIORS, Identification, joint_values, load, mass_findings, total_source
from dynid.run.links import links
from dynid.terms import Of
from dynid.verbs import save
from dynid.verbs.summary import _millimetres, link_lines
from tests.estimate.test_partial_prior import LINKS, RATE, arm, torque
from tests.report.sections import section

pytestmark = pytest.mark.usefixtures("unexamined")

WRONG = (1.3, 1.2, 1.0, 1.0)


def shaped(text: str) -> str:
    """The arm with a box around every link."""
    for i, (_, length, _) in enumerate(LINKS):
        box = f'<geometry><box size="{length} 0.1 0.1"/></geometry>'
        shape = f'<collision><origin xyz="{length / 2} 0 0"/>{box}</collision>'
        text = text.replace(f'<link name="l{i}">', f'<link name="l{i}">{shape}')
    return text


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    """The description's first two masses are wrong."""
    return run_with(WRONG, tmp_path_factory.mktemp("arm"))


def run_with(known: tuple[float, ...], folder: Path) -> Identification:
    """Simulated by pinocchio.    known: masses of the description over the true ones; nan = it has none."""
    path = folder / "arm.urdf"
    path.write_text(shaped(arm(known)))
    robot, rng = load_robot(path, diagnostics=Diagnostics()), np.random.default_rng(0)
    t = np.arange(2000) / RATE
    speed = 2 * np.pi * rng.uniform(0.1, 0.5, (robot.n, 3))
    size, phase = rng.uniform(0.2, 0.5, (robot.n, 3)), rng.uniform(0, 6, (robot.n, 3))
    angle = t[:, None, None] * speed + phase
    q, dq = (size * np.sin(angle)).sum(-1), (size * speed * np.cos(angle)).sum(-1)
    ddq = -(size * speed**2 * np.sin(angle)).sum(-1)
    tau = torque(q, dq, ddq, np.zeros(robot.n))
    tau += 0.01 * np.sqrt((tau**2).mean(axis=0)) * rng.normal(size=tau.shape)
    log = Log.from_arrays(robot, t, q, tau, dq=dq)
    return identify(robot, log, Settings(automatic=False), threads=1, diagnostics=Diagnostics())


def test_values_are_those_of_the_run_and_of_the_description(run: Identification) -> None:
    found, total = links(run)
    assert [link.name for link in found] == list(run.robot.body_names)
    theta, bodies = run.estimate.parameters, body_columns(run.estimate.columns)
    for link, ten in zip(found, bodies, strict=True):
        assert link.mass.value == theta[ten[0]]
        np.testing.assert_allclose([c.value * link.mass.value for c in link.centre], theta[ten[1:4]])
        assert link.mass.described == run.estimate.columns[ten[0]].prior
        assert not link.guessed
    assert total.value == pytest.approx(sum(link.mass.value for link in found))
    assert total.described == pytest.approx(sum(link.mass.described for link in found))


def test_a_mesh_is_read_once_a_run(
    run: Identification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corners = [(x, y, z) for x in (0, 0.3) for y in (-0.05, 0.05) for z in (-0.05, 0.05)]
    (tmp_path / "link.obj").write_text("".join(f"v {x} {y} {z}\n" for x, y, z in corners) + "f 1 2 3\n")
    text = Path(run.robot.source).read_text()
    (tmp_path / "arm.urdf").write_text(re.sub("<box [^>]*/>", '<mesh filename="link.obj"/>', text))
    # Two links have the file: lists of links are made for the tables, the report and the terminal.
    meshed = replace(run, robot=replace(run.robot, source=str(tmp_path / "arm.urdf")))
    read: list[Path] = []

    def counted(path: Path) -> tuple[Float, Int]:
        read.append(path)
        return mesh_triangles(path)

    monkeypatch.setattr(shapes, "mesh_triangles", counted)
    first = links(meshed)
    again = links(replace(meshed, truth=None))
    assert [link.inside for link in first[0]] == [link.inside for link in again[0]]
    assert None not in {link.inside for link in first[0]}
    assert [path.name for path in read] == ["link.obj"]


def test_what_the_data_do_not_tell_is_the_descriptions_and_has_no_interval(run: Identification) -> None:
    first = links(run)[0][0]
    # Its inertia alone is seen, beside a rotor: the mass moves with it by less than the width of its prior.
    assert first.mass.value == pytest.approx(WRONG[0] * LINKS[0][0], rel=MAP().mass)
    assert first.mass.data < PRIORS
    assert not np.isfinite(first.mass.half)
    assert first.source in ("prior", "mostly prior")
    still = replace(first, mass=replace(first.mass, value=first.mass.described))
    assert still.source == "prior"
    moved = replace(first, mass=replace(first.mass, value=1.1 * first.mass.value))
    assert moved.source == "mostly prior"
    for factor in (0.5, 1.6):
        far = replace(first, mass=replace(first.mass, value=factor * first.mass.value))
        assert far.source == "weakly identified"
    assert replace(still, guessed=True).source == "default prior"
    datas = replace(first.mass, data=(1 + DATAS) / 2, half=0.5 * first.mass.value)
    assert replace(first, mass=datas).source == "data"
    assert replace(first, mass=replace(datas, half=1.1 * datas.value)).source == "data; may be zero"


def test_a_link_that_is_hardly_there_or_not_as_described_is_marked(run: Identification) -> None:
    ten = body_columns(run.estimate.columns)[1]
    assert not links(run)[0][1].limit
    theta = np.array(run.estimate.parameters)
    theta[ten] *= 0.05
    light = replace(run, estimate=replace(run.estimate, parameters=theta))
    assert links(light)[0][1].limit == "mass almost zero"
    # A described link with the width of the common scale of guesses is one whose description was left out.
    widths = np.array(run.estimate.link_widths)
    widths[1, 3] = MAP().common
    contradicted = replace(run, estimate=replace(run.estimate, link_widths=widths))
    assert [link.limit for link in links(contradicted)[0]] == [
        "",
        "the log contradicts the robot file",
        "",
        "",
    ]


def test_a_mass_far_from_the_robot_file_is_warned_of(run: Identification) -> None:
    regression = run.regression
    assert mass_findings(run.robot, run.estimate, regression) == ()
    names = [link.name for link in links(run)[0]]
    for factor in (0.1, 10.0):
        theta = np.array(run.estimate.parameters)
        for ten in body_columns(run.estimate.columns):
            theta[ten] *= factor
        scaled = replace(run.estimate, parameters=theta)
        (warned,) = mass_findings(run.robot, scaled, regression)
        assert (warned.level, warned.code) == ("warning", "mass-not-said")
        assert all(f"{name} " in warned.text for name in names)


def test_a_mass_that_no_description_gives_and_that_may_be_none_is_noted(run: Identification) -> None:
    columns = tuple(
        replace(column, prior=float("nan")) if column.of is Of.BODY else column
        for column in run.estimate.columns
    )
    unknown = replace(run.estimate, columns=columns)
    regression = replace(run.regression, columns=columns)
    half = np.array([link.mass.noise for link in links(replace(run, estimate=unknown))[0]])
    open_ = [link.name for link, h in zip(links(run)[0], half, strict=True) if h >= link.mass.value]
    noted = mass_findings(run.robot, unknown, regression)
    assert all(one.level == "note" and one.code == "mass-open" for one in noted)
    assert [f"{name} " in noted[0].text for name in open_] == [True] * len(open_)
    # Ten times the noise leaves no mass with an interval above zero.
    loud = replace(unknown, covariance=1e4 * np.array(unknown.covariance))
    (finding,) = mass_findings(run.robot, loud, regression)
    assert finding.code == "mass-open"


def test_shares_and_intervals_are_between_none_and_all(run: Identification) -> None:
    found, total = links(run)
    for value in [v for link in found for v in (link.mass, *link.centre)] + [total]:
        assert 0.0 <= value.data <= 1.0
        assert not (np.isfinite(value.half) and value.data <= DATAS)
        assert not value.half < 0
    for value in [*(link.mass for link in found), total]:
        assert np.isfinite(value.half) == (value.data > DATAS)


@pytest.mark.parametrize(
    "known",
    [(np.nan,) * 4, (1.0, 1.0, 1.0, np.nan), (1.0, np.nan, 1.0, 1.0), WRONG],
    ids=["no inertias", "last unknown", "second unknown", "two wrong"],
)
def test_what_has_an_interval_is_in_it(known: tuple[float, ...], tmp_path: Path) -> None:
    one = run_with(known, tmp_path)
    found, total = links(one)
    true = [(mass, length / 2, 0.01, 0.0) for mass, length, _ in LINKS]
    values = [(value, x) for link, row in zip(found, true, strict=True)
              for value, x in zip((link.mass, *link.centre), row, strict=True)]  # fmt: skip
    for value, x in [*values, (total, sum(mass for mass, _, _ in LINKS))]:
        assert not abs(value.value - x) > value.half
    # Masses of a serial arm are never determined each: an interval would be that of a guess.
    if np.isnan(known).all():
        assert not any(np.isfinite(value.half) for value, _ in values)
        table = "\n".join(link_lines(one)).split("joints\n")[0].splitlines()[1:]
        assert not any("+-" in line for line in table)


# The arm of a humanoid: mass, centre, sides of the box, axis, place on the carrier.
SHOULDER = (
    (1.1, (0.0, -0.033, 0.0), (0.09, 0.1, 0.09), "0 1 0", "0 -0.2 0.4"),
    (0.9, (0.0, 0.0, -0.02), (0.09, 0.08, 0.12), "1 0 0", "0 -0.067 0"),
    (1.4, (0.0, 0.01, -0.13), (0.08, 0.08, 0.25), "0 0 1", "0 0 -0.05"),
    (0.7, (0.005, 0.0, -0.05), (0.07, 0.07, 0.12), "0 1 0", "0 0 -0.25"),
    (0.9, (0.0, 0.01, -0.08), (0.06, 0.09, 0.14), "0 0 1", "0 0 -0.1"),
)


def humanoid_arm(masses: Float, centres: Float) -> str:
    """masses, centres: (5,) of the links, as shares of the true ones."""
    parts, carrier = [], "base"
    for i, (mass, centre, (a, b, c), axis, at) in enumerate(SHOULDER):
        m, place = masses[i] * mass, " ".join(str(centres[i] * x) for x in centre)
        xx, yy, zz = m * (b * b + c * c) / 12, m * (a * a + c * c) / 12, m * (a * a + b * b) / 12
        parts.append(
            f'<link name="l{i}"><inertial><origin xyz="{place}"/><mass value="{m}"/><inertia ixx="{xx}" iyy="{yy}" '
            f'izz="{zz}" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="j{i}" type="revolute">'
            f'<parent link="{carrier}"/><child link="l{i}"/><origin xyz="{at}"/><axis xyz="{axis}"/>'
            '<limit lower="-3" upper="3" velocity="9" effort="99"/></joint>'
        )
        carrier = f"l{i}"
    return f'<robot name="arm"><link name="base"/>{"".join(parts)}</robot>'


def humanoid_run(seed: int, off: float, folder: Path) -> Identification:
    """Masses of the description are off by up to `off`, centres by half of that."""
    rng, n, path = np.random.default_rng(seed), len(SHOULDER), folder / f"arm{seed}.urdf"
    path.write_text(humanoid_arm(1 + off * rng.uniform(-1, 1, n), 1 + 0.5 * off * rng.uniform(-1, 1, n)))
    robot = load_robot(path, diagnostics=Diagnostics())
    t = np.arange(2000) / RATE
    speed = 2 * np.pi * rng.uniform(0.05, 0.35, (n, 4))
    size, phase = rng.uniform(0.1, 0.4, (n, 4)), rng.uniform(0, 6, (n, 4))
    angle = t[:, None, None] * speed + phase
    q, dq = (size * np.sin(angle)).sum(-1), (size * speed * np.cos(angle)).sum(-1)
    ddq = -(size * speed**2 * np.sin(angle)).sum(-1)
    model = pin.buildModelFromXML(humanoid_arm(np.ones(n), np.ones(n)))
    data, friction = model.createData(), np.array([1.0, 1.0, 0.5, 0.4, 0.1])
    tau = np.array([pin.rnea(model, data, *motion) for motion in zip(q, dq, ddq, strict=True)])
    tau += friction * (dq + np.tanh(dq / 0.02) + 0.06 * ddq)
    tau += np.array([0.15, 0.15, 0.1, 0.08, 0.03]) * rng.normal(size=tau.shape)
    log = Log.from_arrays(robot, t, q, tau, dq=dq)
    return identify(robot, log, Settings(automatic=False), threads=1, diagnostics=Diagnostics())


def test_intervals_hold_the_truth_where_a_description_is_off(tmp_path: Path) -> None:
    """The first two masses are in no torque: the sum of all cannot be sharper than the description says them."""
    held = []
    for seed, off in ((seed, off) for seed in range(4) for off in (0.1, 0.2)):
        one = humanoid_run(seed, off, tmp_path)
        found, total = links(one)
        assert {link.source for link in found[:2]} <= {"prior", "mostly prior"}
        for link, (mass, *_) in zip(found, SHOULDER, strict=True):
            # The interval of log and prior together, which is shown only where the log determines the mass.
            held.append(abs(link.mass.value - mass) <= link.mass.noise)
        alone = np.array([MAP().mass * link.mass.described for link in found])
        assert total.data <= 1.0 - np.sum(alone[:2] ** 2) / np.sum(alone**2) + 1e-6
        assert not np.isfinite(total.half)
        assert total_source(found, total).endswith("prior")
        assert link_lines(one)[2 + len(found)].endswith(total_source(found, total))
    assert np.mean(held) >= 0.9


def test_a_centre_is_in_its_shape_or_not(run: Identification, tmp_path: Path) -> None:
    assert all(link.inside for link in links(run)[0][:2])
    theta = np.array(run.estimate.parameters)
    ten = body_columns(run.estimate.columns)[1]
    theta[ten[3]] = 0.2 * theta[ten[0]]  # 0.2 m above a box of half the height 0.05 m
    away = replace(run, estimate=replace(run.estimate, parameters=theta))
    assert links(away)[0][1].inside is False
    assert " NO " in "\n".join(link_lines(away))
    unknown = replace(run, robot=replace(run.robot, source=str(tmp_path / "gone.urdf")))
    assert {link.inside for link in links(unknown)[0]} == {None}


def test_long_names_are_told_apart_in_columns_that_line_up(run: Identification) -> None:
    left = "/a/workcell/with/a/very/long/name/of/its/own/left/"
    bodies = tuple(f"{left}{name}" for name in run.robot.body_names)
    joints = tuple(f"left_{name}_of_the_robot" for name in run.robot.joint_names)
    robot = replace(
        run.robot,
        body_names=bodies,
        tree_joint_names=joints,
        joint_names=joints,
        merged=tuple((b,) for b in bodies),
    )
    lines = link_lines(replace(run, robot=robot))
    for name in (*run.robot.body_names, *joints):
        assert sum(line.split()[0].endswith(name) for line in lines if line.strip()) == 1
    header = lines[1]
    end = header.index("prior") + len("prior")
    assert all(line[end - 10] == " " and line[end - 1] != " " for line in lines[2 : 2 + len(bodies)])


def test_terminal_and_report_show_them_with_units(run: Identification, tmp_path: Path) -> None:
    text, html = (
        "\n".join(link_lines(run)),
        "".join(str(s.render(run, Page())) for s in (section("links"), section("joints"))),
    )
    for name in (*run.robot.body_names, *run.robot.joint_names):
        assert name in text
        assert name in html
    assert "N m s/rad" in text
    assert "all links" in text
    assert "all links" in html
    # What is exported where the run's own bodies are not physically consistent is what is shown.
    other = replace(run, estimate=replace(run.estimate, consistent=1.5 * run.estimate.parameters))
    assert links(other)[0][0].mass.value == pytest.approx(1.5 * links(run)[0][0].mass.value)
    assert "unlike the estimate that is scored" in str(section("links").render(other, Page()))
    save(other, tmp_path / "run")
    np.testing.assert_array_equal(load(tmp_path / "run").estimate.consistent, other.estimate.consistent)


def test_the_report_has_no_column_of_what_no_link_has(run: Identification, tmp_path: Path) -> None:
    blank = run_with((np.nan,) * 4, tmp_path)
    for one in (run, blank):
        found, total = links(one)
        page = str(section("links").render(one, Page()))
        figures = [total, *(link.mass for link in found)]
        described = any(np.isfinite(figure.described) for figure in figures)
        assert described == (one is run)
        assert ("prior<span" in page) == described
        assert ("± 95 %" in page) == any(np.isfinite(figure.half) for figure in figures)
        head, *rows = [row.split("</tr>")[0] for row in page.split("<tr>")[1:]]
        wide = len(re.findall(r"<th\b", head))
        assert all(len(re.findall(r"<t[hd]\b", row)) == wide for row in rows)
        assert len(rows) == len(found) + 1


def test_joints_hold_all_but_bodies(run: Identification) -> None:
    values = joint_values(run)
    assert {value.column.name for value in values} == {
        column.name for column in run.estimate.columns if column.name[:2] in ("Ia", "fv", "fc", "fo")
    }
    order = [run.robot.joint_names.index(value.joint) for value in values]
    assert order == sorted(order)


def test_the_table_is_kept_in_the_run_folder(run: Identification, tmp_path: Path) -> None:
    save(run, tmp_path / "run")
    rows = read_table(tmp_path / "run" / "links.parquet")
    found, total = links(run)
    assert list(rows["name"]) == [*(link.name for link in found), "all links"]
    assert list(rows["kind"]) == ["link"] * len(found) + ["total"]
    np.testing.assert_array_equal(rows["mass"], [*(link.mass.value for link in found), total.value])
    np.testing.assert_array_equal(rows["y_described"][:-1], [link.centre[1].described for link in found])
    np.testing.assert_array_equal(rows["mass_half95"][:-1], [link.mass.half for link in found])
    assert list(rows["inside"][:-1]) == ["inside" if link.inside else "outside" for link in found]
    documented = (Path(__file__).parents[2] / "docs" / "run-folder.md").read_text()
    section = documented.split("## `links.parquet`")[1].split("\n## ")[0]
    for name in (
        "kind",
        "name",
        "mass",
        "x",
        "mass_half95",
        "x_half95",
        "mass_described",
        "mass_data",
        "inside",
        "said_by",
    ):
        assert name in rows
        assert f"`{name}`" in section


@pytest.mark.parametrize(
    ("centre", "shown"),
    [((0.0124, -0.3, 0.0), "12, -300, 0"), ((1e307, 0.0, 0.0), "-"), ((np.nan, 0.0, 0.0), "-")],
)
def test_centres_are_whole_millimetres_where_these_are_numbers(
    centre: tuple[float, float, float], shown: str
) -> None:
    assert _millimetres(centre) == shown


def test_a_mass_that_may_be_none_is_shown_as_exports_hold_it(run: Identification) -> None:
    link = links(run)[0][0]
    vague = replace(link, mass=replace(link.mass, value=0.5345, half=14.0, data=1.0))
    row = _row(vague)
    assert row["mass"] == {"value": "0.5345", "half": "14", "described": number(vague.mass.described, 4)}
    assert row["css"] == "weak"
    assert _row(replace(vague, mass=replace(vague.mass, half=0.01)))["css"] == "identified"
