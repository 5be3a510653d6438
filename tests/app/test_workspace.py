"""Projects, their files, names, and what the keys of files and mapping hold."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dynid.app.workspace import Workspace, sanitised
from dynid.base import InputError, ResourceError, UsageError


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("log.csv", "log.csv"), ("-rf", "rf"), ("--out=x", "out=x"), ("..", "file"), (".hidden", "hidden"),
        ("a\nb.csv", "a_b.csv"), ("a;b|c$(d).csv", "a_b_c_(d).csv"), ("Größe 1.csv", "Größe 1.csv"), ("", "file"),
        ("   ", "file"), ("a\0b", "a_b"),
    ],
)  # fmt: skip
def test_names_are_made_safe(given: str, made: str) -> None:
    assert sanitised(given) == made


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_the_folder_is_closed_to_other_users(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Workspace(tmp_path / "lab").open()()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "lab").stat().st_mode) == 0o700


def test_long_names_are_shortened_and_keep_their_ending() -> None:
    for name in ("x" * 5000 + ".parquet", "漢" * 300 + ".csv"):
        made = sanitised(name)
        assert len(made.encode()) <= 255
        assert made.endswith(name[name.index(".") :])


def test_files_go_where_they_belong(workspace: Workspace) -> None:
    project = workspace.new_project("arm")
    assert project.place_for("", "arm.urdf") == "robot/arm.urdf"
    assert project.place_for("", "link.STL") == "robot/link.STL"
    assert project.place_for("", "log.csv") == "logs/log.csv"
    assert project.place_for("logs", "bag/metadata.yaml") == "logs/bag/metadata.yaml"
    assert project.place_for("robot", "../../etc/arm.urdf") == "robot/etc/arm.urdf"
    assert project.place_for("elsewhere", "/etc/passwd") == "logs/etc/passwd"
    for wrong in ("", "..", "/", "a/" * 20 + "b"):
        with pytest.raises(UsageError):
            project.place_for("", wrong)


def test_too_many_files_are_refused(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynid.app.workspace.MOST_FILES", 2)
    project = workspace.new_project("arm")
    for name in ("a.csv", "b.csv"):
        (project.folder / project.place_for("", name)).write_text("t\n")
    with pytest.raises(ResourceError, match="2 files"):
        project.place_for("", "c.csv")


def test_the_robot_is_the_only_one_or_the_chosen_one(workspace: Workspace) -> None:
    project = workspace.new_project("arm")
    assert project.robot is None
    (project.folder / "robot" / "arm.urdf").write_text("<robot/>")
    (project.folder / "robot" / "package.xml").write_text("<package/>")
    assert project.robot == "robot/arm.urdf"
    (project.folder / "robot" / "other.urdf").write_text("<robot/>")
    assert project.robot is None
    project.change(robot="robot/other.urdf")
    assert project.robot == "robot/other.urdf"


def test_keys_change_with_contents_and_roles_alone(workspace: Workspace) -> None:
    project = workspace.new_project("arm")
    (project.folder / "robot" / "arm.urdf").write_text("<robot/>")
    log = project.folder / "logs" / "a.csv"
    log.write_text("t\n0\n")
    (project.folder / "logs" / "b.csv").write_text("t\n0\n")
    first = project.files_key()
    assert project.files_key() == first
    assert Workspace(workspace.folder).project(project.id).files_key() == first
    log.write_text("t\n1\n")
    second = project.files_key()
    project.change(roles={"logs/b.csv": "validate"})
    third = project.files_key()
    project.change(roles={"logs/b.csv": "off"})
    fourth = project.files_key()
    assert len({first, second, third, fourth}) == 4
    (project.folder / "logs" / "b.csv").write_text("t\n2\n")
    assert project.files_key() == fourth  # it is left out
    assert project.mapping_key() == ""
    (project.folder / "experiment.toml").write_text("[log]\n")
    assert project.mapping_key() != ""


def test_names_of_projects_are_kept_apart_from_folders(workspace: Workspace) -> None:
    one, other = workspace.new_project("Arm <b>1</b>\n\0"), workspace.new_project("Arm <b>1</b>")
    assert one.id != other.id
    assert one.about.name == "Arm <b>1</b>"
    assert one.folder.parent == workspace.folder / "projects"
    assert workspace.new_project("漢字").about.name == "漢字"
    for empty in ("", " \n"):
        with pytest.raises(UsageError):
            workspace.new_project(empty)


def test_a_project_that_is_damaged_hides_no_other(workspace: Workspace) -> None:
    good, bad = workspace.new_project("good"), workspace.new_project("bad")
    (bad.folder / "project.json").write_text("{")
    with pytest.raises(InputError):
        _ = bad.about
    assert [one.id for one in workspace.projects()] == [good.id]


def test_removing_stays_inside(workspace: Workspace, tmp_path: Path) -> None:
    project = workspace.new_project("arm")
    (project.folder / "logs" / "a.csv").write_text("t\n")
    for wrong in ("project.json", "logs", "../x", "runs/x", "logs/../project.json"):
        with pytest.raises(InputError):
            project.remove_file(wrong)
    project.remove_file("logs/a.csv")
    assert project.logs() == ()
    project.remove()
    assert workspace.projects() == []
