"""Actions of the buttons: each changes stored data or starts a command, and returns the next page's address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from dynid.app import jobs
from dynid.app.commands import COMMANDS, demo
from dynid.app.readiness import keys, readiness, stored_corrections
from dynid.app.workspace import ROLES, TRAIN, Project, Workspace, absent
from dynid.base import RefusedError, claim_codes

Form = Mapping[str, Sequence[str]]
# Tab on which the job of a command is shown; by default the first.
_TABS = {
    "compare": "runs",
    "export": "runs",
    "validate": "runs",
    "excite": "motion",
    "watch": "live",
}


def new_project(workspace: Workspace, form: Form) -> str:
    """Create an empty project or one with the example; return its address."""
    example = bool(form.get("example"))
    project = workspace.new_project("Example arm" if example else (form.get("name") or ("",))[0])
    if example:
        jobs.start(project, demo(project, form))
    return address(project)


def act(project: Project, action: str, form: Form) -> str:
    """Change a project or start a command, and return the next address; raises InputError for unknown actions."""
    if action in _CHANGES:
        return _CHANGES[action](project, form)
    if action not in COMMANDS:
        raise absent(action)
    if action == "identify":
        missing = readiness(project).missing
        if missing:
            raise RefusedError("not-ready", found="; ".join(missing), expected="a checked log")
    command = COMMANDS[action](project, form)
    jobs.start(project, command, lambda: keys(project))
    if action == "edit":
        project.change(edited=project.mapping_key())
    return address(project, _TABS.get(action, "identify"), command.kind)


def stop(project: Project, job: str, form: Form) -> str:
    """Stop a job and return the address of its page."""
    stopped = jobs.job_of(project, job)
    jobs.stop(stopped)
    return address(project, (form.get("tab") or ("identify",))[0], stopped.command.kind)


def uploaded(project: Project, place: str) -> dict[str, object]:
    """Return the answer to an upload: where the file is and whether the project has a robot and a log to fit."""
    ready = project.robot is not None and bool(project.logs_to(TRAIN))
    return {"place": place, "ready": ready}


def address(project: Project, tab: str = "identify", anchor: str = "") -> str:
    """Return the address of a page of a project."""
    return f"/p/{project.id}/{quote(tab, safe='')}" + (f"#{anchor}" if anchor else "")


def _columns(project: Project, form: Form) -> str:
    # The form contains confirmations, corrections and the use of each motion; `dynid init` runs again if they change.
    if stored_corrections(project, form):
        return act(project, "init", form)
    return address(project, "identify", "columns")


def _guess(project: Project, _form: Form) -> str:
    # For new files, earlier corrections are dropped.
    if readiness(project).mapped is None:
        project.change(answers={}, motions={}, confirmed={})
    return act(project, "init", {})


def _roles(project: Project, form: Form) -> str:
    robot = (form.get("robot") or ("",))[0]
    roles = {log: (form.get(f"role:{log}") or (TRAIN,))[0] for log in project.logs()}
    project.change(
        robot=robot if robot in project.robots() else "",
        roles={log: role for log, role in roles.items() if role in ROLES and role != TRAIN},
    )
    return address(project, "identify", "files")


def _accept(project: Project, form: Form) -> str:
    (code,) = claim_codes((form.get("code") or ("",))[0])
    project.accept(code, back=bool(form.get("back")))
    return address(project, "identify", "run")


def _remove(project: Project, form: Form) -> str:
    project.remove_file((form.get("file") or ("",))[0])
    return address(project, "identify", "files")


def _delete(project: Project, _form: Form) -> str:
    for job in jobs.jobs(project):
        jobs.stop(job)
    if any(job.state == jobs.RUNNING for job in jobs.jobs(project)):
        raise RefusedError(
            "busy", found="a job that is still ending", expected="no running job", do="try again in a moment"
        )
    project.remove()
    return "/"


_CHANGES = {
    "columns": _columns,
    "guess": _guess,
    "roles": _roles,
    "accept": _accept,
    "remove": _remove,
    "delete": _delete,
}
