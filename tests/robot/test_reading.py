"""Reading robot descriptions as such: encodings, sizes, roots, names, and text that nobody would write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynid.base import Diagnostics, DynidError, InputError, RefusedError, ResourceError
from dynid.robot import RobotModel, describe, load_robot
from tests.robot.texts import ARM, MJCF, PLACED, TOML, chain, swap

HOSTILE = "<img src=x onerror=alert(1)>[red]\"'&{{7*7}}=1+1\u202e"


def read(text: str | bytes, path: Path, root: str | None = None) -> tuple[RobotModel, Diagnostics]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    diagnostics = Diagnostics()
    return load_robot(path, root=root, diagnostics=diagnostics), diagnostics


def test_zero_mass_links_are_merged_where_something_fixed_has_mass(tmp_path: Path) -> None:
    tool = '<link name="tool"><inertial><mass value="2"/></inertial></link>'
    joint = '<joint name="f" type="fixed"><parent link="l1"/><child link="tool"/></joint></robot>'
    robot, diagnostics = read(
        swap(swap(ARM, '"1.5"', '"0"'), "</robot>", tool + joint), tmp_path / "robot.urdf"
    )
    assert robot.inertia_prior[0, 0] == 2.0
    assert robot.merged == (("l1", "tool"),)
    assert not list(diagnostics)


def test_all_independent_errors_are_reported_at_once(tmp_path: Path) -> None:
    text = swap(swap(swap(ARM, '"1.5"', '"1,5"'), 'lower="-1"', 'lower="2"'), '"0 0 1"', '"0 0 0"')
    with pytest.raises(InputError) as caught:
        read(text, tmp_path / "robot.urdf")
    assert [line.partition("]")[0] for line in str(caught.value).splitlines()] == [
        "error[zero-axis", "error[limits-swapped", "error[number",
    ]  # fmt: skip


def test_a_file_full_of_mistakes_is_reported_of_the_first_ones(tmp_path: Path) -> None:
    joints = "".join(
        f'<joint name="x{i}" type="fixed"><parent link="l{i}x"/><child link="l{i}y"/></joint>'
        for i in range(9000)
    )
    with pytest.raises(InputError) as caught:
        read(swap(ARM, "</robot>", joints + "</robot>"), tmp_path / "robot.urdf")
    assert str(caught.value).count("\n") == 50
    assert "17950 more errors" in str(caught.value)


@pytest.mark.parametrize(
    "above", ["\n\n  ", "<!-- (c) a lab -->\n", "<!-- a -->\n<!-- b\n- > -->\n", "\ufeff\n"]
)
@pytest.mark.parametrize("said", ["", ' encoding="utf-8"', " encoding='UTF-8' standalone='yes'"])
def test_a_declaration_below_a_remark_is_passed_over(above: str, said: str, tmp_path: Path) -> None:
    plain, _ = read(ARM, tmp_path / "plain.urdf")
    robot, _ = read(f'{above}<?xml version="1.0"{said}?>\n{ARM}', tmp_path / "robot.urdf")
    np.testing.assert_array_equal(robot.inertia_prior, plain.inertia_prior)
    wrong = f'{above}<?xml version="1.0"{said}?>\n' + swap(ARM, 'upper="1"', 'upper="x"')
    at = wrong[: wrong.index('upper="x"')].count("\n") + 1
    with pytest.raises(InputError, match=rf"robot.urdf:{at}:"):
        read(wrong, tmp_path / "robot.urdf")


def test_a_late_declaration_of_another_encoding_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="xml-syntax"):
        read('\n<?xml version="1.0" encoding="latin-1"?>\n' + ARM, tmp_path / "robot.urdf")


@pytest.mark.parametrize("inf", ["inf", "Infinity", "INF", " .inf "])
def test_infinite_limits_are_none(inf: str, tmp_path: Path) -> None:
    limit = 'lower="-1" upper="1" velocity="2" effort="3"'
    lower = inf.strip() if inf.strip().startswith("-") else f"-{inf.strip()}"
    none = f'lower="{lower}" upper="{inf}" velocity="+{inf.strip()}" effort="{inf}"'
    robot, diagnostics = read(swap(ARM, limit, none), tmp_path / "robot.urdf")
    for values, sign in zip(
        (robot.limits.lower, robot.limits.upper, robot.limits.velocity, robot.limits.effort),
        (-1, 1, 1, 1),
        strict=True,
    ):
        assert values[0] == sign * np.inf
    assert not [one for one in diagnostics if one.severity.name != "NOTE"]
    with pytest.raises(InputError, match="not-finite"):
        read(swap(ARM, limit, limit.replace('lower="-1"', 'lower="inf"')), tmp_path / "robot.urdf")


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "windows-1252"])
def test_a_declared_encoding_is_decoded(encoding: str, tmp_path: Path) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n' + ARM.replace("j1", "Drehgelenk-ä")
    robot, _ = read(text.encode(encoding), tmp_path / "robot.urdf")
    assert robot.joint_names == ("Drehgelenk-ä",)


def test_a_long_chain_of_fixed_links_is_merged(tmp_path: Path) -> None:
    robot, _ = read(chain(10_000, "fixed"), tmp_path / "robot.urdf")
    assert robot.n == 1
    assert len(robot.merged[0]) == 9999


def test_a_root_picks_its_tree(tmp_path: Path) -> None:
    text = swap(ARM, "</robot>", '<link name="alone"/></robot>')
    robot, _ = read(text, tmp_path / "robot.urdf", root="base")
    assert robot.joint_names == ("j1",)
    two = swap(MJCF, "</body>\n", '</body>\n<body name="l2"><joint name="j2"/><geom size="1"/></body>\n')
    assert read(two, tmp_path / "robot.xml")[0].joint_names == ("j1", "j2")
    assert read(two, tmp_path / "robot.xml", root="l2")[0].joint_names == ("j2",)


@pytest.mark.parametrize("file", ["robot.urdf", "robot.xml", "robot.toml"])
def test_hostile_joint_names_are_only_names(file: str, tmp_path: Path) -> None:
    escaped = HOSTILE.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    quoted = HOSTILE.replace('"', '\\"')
    text = {
        "robot.urdf": ARM.replace('"j1"', f'"{escaped}"'),
        "robot.xml": MJCF.replace('"j1"', f'"{escaped}"'),
        "robot.toml": TOML.replace('"j1"', f'"{quoted}"'),
    }[file]
    robot, _ = read(text, tmp_path / file)
    assert robot.joint_names[0] == HOSTILE


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    robot, _ = read(TOML.replace('"j1"', '"a\\u001b[2Jb\\u009bc\\nd"'), tmp_path / "robot.toml")
    assert all(line.isprintable() for line in describe(robot))


def test_a_missing_file_a_folder_and_an_unreadable_one(tmp_path: Path) -> None:
    for path, error in (
        (tmp_path / "none.urdf", InputError),
        (tmp_path / "none.toml", InputError),
        (tmp_path, InputError),
        (tmp_path / ("x" * 5000), ResourceError),
        (Path("a\0b.urdf"), InputError),
    ):
        with pytest.raises(error):
            load_robot(path)


def test_endless_files_are_refused() -> None:
    endless = Path("/dev/zero")
    if not endless.exists():
        pytest.skip("no /dev/zero here")
    with pytest.raises(RefusedError, match="too-large"):
        load_robot(endless)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_is_written_the_reader_stops_in_its_own_words(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text, name = data.draw(
        st.sampled_from([(ARM, "r.urdf"), (MJCF, "r.xml"), (TOML, "r.toml"), (PLACED, "r.toml")])
    )
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 12))
        piece = data.draw(
            st.sampled_from(["", "nan", "-1", "1e400", '"', "<", ">", "/", "0", "é", "=", "[", "]", " "])
        )
        text = text[:start] + piece + text[start + length :]
    path = tmp_path_factory.getbasetemp() / name
    try:
        robot, _ = read(text, path)
    except DynidError as error:
        code = error.exit_code
    else:
        code = 0 if robot.tree.n == robot.n_bodies else 1
    assert code in (0, 2, 3, 7)
