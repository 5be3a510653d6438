"""Whether a project is ready for identification: columns confirmed and log checked for the present files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dynid.app.jobs import DONE, Job, latest
from dynid.app.workspace import EXPERIMENT, LEFT_OUT, ROLES, TRAIN, Project
from dynid.base import dataclass

# Labels of the keys of an experiment file.
_LABELS = {
    "log.time.column": "Time: column",
    "log.time.unit": "Time: unit",
    "log.trajectory": "Column that names the motions",
    "log.order": "Order of numbered columns",
    "log.position.columns": "Position: columns",
    "log.position.unit": "Position: unit",
    "log.position.offset": "Position: offset to the zero of the robot file",
    "log.position.calibration": "Position: calibration of the motors",
    "log.position.which": "Position: which columns",
    "log.velocity.columns": "Velocity: columns",
    "log.velocity.unit": "Velocity: unit",
    "log.velocity.which": "Velocity: which columns",
    "log.effort.columns": "Effort: columns",
    "log.effort.unit": "Effort: unit",
    "log.effort.side": "Effort: side of the gear",
    "log.effort.which": "Effort: which columns",
    "robot.drive_gain": "Torque per ampere, N m/A",
    "drive.kp": "Stiffness of the drives, N m/rad",
    "drive.kd": "Damping of the drives, N m s/rad",
}
CHANNELS = ("position", "velocity", "effort")


@dataclass(frozen=True)
class Row:
    """A decision about the columns, as a row of the table.

    answered: given by the user.    confirmed: confirmed by the user as it was detected.
    """

    key: str
    title: str
    value: str
    why: Sequence[str]
    question: str
    grade: str
    options: Sequence[tuple[str, str]]
    answered: bool
    confirmed: bool

    @property
    def doubtful(self) -> bool:
        """Whether the user has to confirm or answer it."""
        return self.grade != "sure"


@dataclass(frozen=True)
class Mapped:
    """The detected columns of the log.

    columns: by channel, joint -> column.    choices: possible columns of a joint.    motions: with name and role.
    """

    rows: Sequence[Row]
    joints: Sequence[str]
    columns: Mapping[str, Mapping[str, str]]
    choices: Sequence[str]
    motions: Sequence[Mapping[str, Any]]

    @property
    def open(self) -> Sequence[Row]:
        """Rows that are uncertain and not confirmed yet."""
        return [row for row in self.rows if row.doubtful and not row.confirmed]


@dataclass(frozen=True)
class Readiness:
    """State of a project on its way to an identification.

    Attributes
    ----------
    mapped : Mapped or None
        Detected columns; None if they were not detected for the present files.
    init, check : Job or None
        Latest detection of the columns and latest check.
    fresh : bool
        Whether the check was of the present files and mapping.
    missing : sequence of str
        What is missing before the project can be identified.
    edited : bool
        Whether the user wrote the experiment file, which then replaces the detected columns.

    """

    mapped: Mapped | None
    init: Job | None
    check: Job | None
    fresh: bool
    missing: Sequence[str]
    edited: bool = False


def keys(project: Project) -> dict[str, str]:
    """Return hashes of the inputs of a job: files with their roles, and the experiment file."""
    return {"files": project.files_key(), "mapping": project.mapping_key()}


def readiness(project: Project) -> Readiness:
    """Determine the state of a project from its files, jobs and confirmations."""
    now = keys(project)
    init, checked = latest(project, "init"), latest(project, "check")
    mapped = _mapped(project, init, now)
    fresh = checked is not None and dict(checked.keys) == now
    missing = []
    if project.robot is None:
        missing.append("choose one of the robot files" if project.robots() else "a robot file is missing")
    if not project.logs_to(TRAIN):
        missing.append("a log to fit is missing")
    if not missing:
        missing += _unready(project, init, mapped, checked, fresh)
    return Readiness(mapped, init, checked, fresh, missing, project.edited)


def _unready(
    project: Project, init: Job | None, mapped: Mapped | None, checked: Job | None, fresh: bool
) -> list[str]:
    missing: list[str] = []
    if not project.edited:
        if mapped is None or not (project.folder / EXPERIMENT).is_file():
            again = init is not None and init.state == DONE
            return ["the files have changed: find the columns again" if again else "find the columns first"]
        missing = [
            f"{'answer' if row.question else 'confirm or correct'}: {row.title[0].lower()}{row.title[1:]}"
            for row in mapped.open
        ]
        roles = project.about.motions
        if any(motion["runs_back"] and motion["name"] not in roles for motion in mapped.motions):
            missing.append("apply the choice of motions: time runs backwards in one of them")
    if checked is None or not fresh:
        missing.append(
            "files or columns have changed since the check: check again" if checked else "check the log"
        )
    elif checked.state != DONE:
        missing.append("the check is still running" if checked.code is None else "the check rejected the log")
    return missing


def _mapped(project: Project, init: Job | None, now: Mapping[str, str]) -> Mapped | None:
    if init is None or init.state != DONE or init.keys.get("files") != now["files"]:
        return None
    results = init.printed.get("results", {})
    if "decisions" not in results:
        return None
    about = project.about
    confirmed = about.confirmed if about.confirmed_for == now["files"] else {}
    rows = [
        _row(item, about.answers, confirmed)
        for item in results["decisions"]
        if item["value"] is not None or item["question"] or item["why"]
    ]
    used = [column for group in results["columns"].values() for column in group.values()]
    motions = [item | {"role": _role(item, about.motions)} for item in results["motions"]]
    return Mapped(rows, results["joints"], results["columns"], [*used, *results["unused"]], motions)


def _role(motion: Mapping[str, Any], roles: Mapping[str, str]) -> str:
    # A motion whose time runs backwards would stop the run.
    role = roles.get(motion["name"], LEFT_OUT if motion["runs_back"] else TRAIN)
    return role if role in ROLES else TRAIN


def _row(decision: Mapping[str, Any], answers: Mapping[str, str], confirmed: Mapping[str, str]) -> Row:
    key, value = decision["key"], decision["value"] or ""
    title = _LABELS.get(key, key)
    if key.startswith("robot.lock."):
        title = f"Held joint {key.removeprefix('robot.lock.')}: position"
    answered = key in answers or any(other.startswith(f"{key}.") for other in answers)
    sure = decision["grade"] == "sure" or (key in answers and not decision["question"])
    return Row(
        key,
        title,
        value,
        [why for why in decision["why"] if why],
        decision["question"],
        "sure" if sure else decision["grade"],
        [(option["value"], option["words"]) for option in decision["options"]],
        answered,
        bool(value) and not decision["question"] and confirmed.get(key) == value,
    )


def stored_corrections(project: Project, form: Mapping[str, Sequence[str]]) -> bool:
    """Store the corrections and confirmations of the table; return whether the columns must be detected again.

    Fields of the form are `value:KEY`, `column:CHANNEL:JOINT`, `motion:NAME` and `right:KEY` (confirmed as shown).
    """
    now = keys(project)
    mapped = _mapped(project, latest(project, "init"), now)
    if mapped is None:
        return True
    about = project.about
    answers, motions = dict(about.answers), {item["name"]: item["role"] for item in mapped.motions}
    confirmed = dict(about.confirmed) if about.confirmed_for == now["files"] else {}
    for row in mapped.rows:
        given = (form.get(f"value:{row.key}") or (row.value,))[0].strip()
        if given and given != row.value:
            answers[row.key] = given
            # Columns of single joints belong to the previous group of columns.
            answers = {item: text for item, text in answers.items() if not item.startswith(f"{row.key}.")}
        if form.get(f"right:{row.key}") and not row.question and given == row.value:
            confirmed[row.key] = row.value
        else:
            confirmed.pop(row.key, None)
    for channel in CHANNELS:
        key = f"log.{channel}.columns"
        shown = mapped.columns.get(channel, {})
        given_columns = {
            joint: (form.get(f"column:{channel}:{joint}") or (shown.get(joint, "none"),))[0]
            for joint in mapped.joints
        }
        if key not in (set(answers) - set(about.answers)) and any(
            column != shown.get(joint, "none") for joint, column in given_columns.items()
        ):
            answers |= {f"{key}.{joint}": column for joint, column in given_columns.items()}
    motions |= {name: role for name in motions if (role := (form.get(f"motion:{name}") or ("",))[0]) in ROLES}
    whole = all(role == TRAIN for role in motions.values()) and not any(
        item["runs_back"] for item in mapped.motions
    )
    wanted = {} if whole else motions
    changed = answers != dict(about.answers) or wanted != dict(about.motions)
    project.change(answers=answers, motions=wanted, confirmed=confirmed, confirmed_for=now["files"])
    return changed
