"""The table of columns: what is changed becomes an answer, what is confirmed stays with these very files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dynid.app.readiness import keys, readiness, stored_corrections
from dynid.app.workspace import Project, Workspace, write_json


def decision(key: str, value: str | None, grade: str = "sure", **more: Any) -> dict[str, Any]:
    question = "which?" if grade == "asked" else ""
    return {
        "key": key,
        "value": value,
        "grade": grade,
        "question": question,
        "why": ["seen"],
        "options": [],
        **more,
    }


DECISIONS = [
    decision("log.time.column", "t"),
    decision("log.effort.columns", "tau_{joint}", "likely"),
    decision("log.effort.unit", "N m", "likely", options=[{"value": "N m", "words": "N m"}]),
]


def with_init(project: Project, decisions: list[dict[str, Any]], motions: list[dict[str, Any]]) -> Project:
    """A project whose newest job is a finished init that printed these decisions."""
    folder = project.folder / "jobs" / "0001"
    folder.mkdir()
    job = {"kind": "init", "title": "", "arguments": ["init"], "result": "", "live": False, "created": 0.0}
    write_json(folder / "job.json", job | {"keys": keys(project)})
    write_json(folder / "ended.json", {"code": 0, "ended": 1.0})
    results = {
        "decisions": decisions,
        "joints": ["a", "b"],
        "columns": {"effort": {"a": "tau_a", "b": "tau_b"}},
        "unused": ["x"],
        "motions": motions,
    }
    (folder / "stdout").write_text(json.dumps({"results": results}))
    (project.folder / "experiment.toml").write_text("[log]\n")
    return project


@pytest.fixture
def project(workspace: Workspace) -> Project:
    made = workspace.new_project("arm")
    (made.folder / "robot" / "two.toml").write_text("")
    (made.folder / "logs" / "a.csv").write_text("t\n")
    return made


def shown(**more: str) -> dict[str, list[str]]:
    """The form as it is shown, with changes."""
    form = {"value:log.effort.unit": "N m", "column:effort:a": "tau_a", "column:effort:b": "tau_b"} | more
    return {key: [value] for key, value in form.items()}


def missing(project: Project) -> list[str]:
    return [one for one in readiness(project).missing if "check the log" not in one]


def test_doubtful_columns_are_confirmed_one_by_one(project: Project) -> None:
    with_init(project, DECISIONS, [])
    assert len(missing(project)) == 2
    assert not stored_corrections(project, shown(**{"right:log.effort.unit": "1"}))
    assert missing(project) == ["confirm or correct: effort: columns"]
    assert not stored_corrections(
        project, shown(**{"right:log.effort.unit": "1", "right:log.effort.columns": "1"})
    )
    assert missing(project) == []
    # The tick is taken away again.
    assert not stored_corrections(project, shown())
    assert len(missing(project)) == 2


def test_confirmations_are_of_these_files(project: Project) -> None:
    with_init(project, DECISIONS, [])
    stored_corrections(project, shown(**{"right:log.effort.unit": "1", "right:log.effort.columns": "1"}))
    (project.folder / "logs" / "a.csv").write_text("t\n1\n")
    assert missing(project) == ["the files have changed: find the columns again"]
    job = project.folder / "jobs" / "0001" / "job.json"
    write_json(job, json.loads(job.read_text()) | {"keys": keys(project)})
    assert len(missing(project)) == 2


def test_a_changed_value_is_an_answer_and_no_confirmation(project: Project) -> None:
    with_init(project, DECISIONS, [])
    changed = shown(**{"value:log.effort.unit": "A", "right:log.effort.unit": "1"})
    assert stored_corrections(project, changed)
    assert project.about.answers == {"log.effort.unit": "A"}
    assert "log.effort.unit" not in project.about.confirmed


def test_an_open_question_cannot_be_confirmed_away(project: Project) -> None:
    with_init(project, [decision("log.effort.unit", "N m", "asked")], [])
    stored_corrections(project, shown(**{"right:log.effort.unit": "1"}))
    assert missing(project) == ["answer: effort: unit"]


def test_a_joint_gets_another_column(project: Project) -> None:
    with_init(project, DECISIONS, [])
    assert stored_corrections(project, shown(**{"column:effort:a": "x"}))
    assert project.about.answers == {"log.effort.columns.a": "x", "log.effort.columns.b": "tau_b"}
    # Another group of columns takes the place of what was said joint by joint.
    assert stored_corrections(project, shown(**{"value:log.effort.columns": "i_{joint}"}))
    assert project.about.answers == {"log.effort.columns": "i_{joint}"}


def test_what_the_form_does_not_know_is_left_alone(project: Project) -> None:
    with_init(project, DECISIONS, [])
    assert not stored_corrections(project, shown(**{"value:project.name": "x", "motion:absent": "off"}))
    assert project.about.answers == {}
    assert project.about.motions == {}


def test_motions_whose_time_runs_back_are_left_out_by_a_click(project: Project) -> None:
    motions = [
        {"name": "good", "rows": 10, "seconds": 1.0, "runs_back": False},
        {"name": "bad", "rows": 10, "seconds": None, "runs_back": True},
    ]
    with_init(project, [decision("log.time.column", "t")], motions)
    mapped = readiness(project).mapped
    assert mapped is not None
    assert [one["role"] for one in mapped.motions] == ["train", "off"]
    assert "time runs back" in missing(project)[0]
    assert stored_corrections(project, shown(**{"motion:good": "train", "motion:bad": "off"}))
    assert project.about.motions == {"good": "train", "bad": "off"}
    assert missing(project) == []
