"""Pages as HTML: the data of each template."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from jinja2 import Environment

from dynid.app import jobs
from dynid.app.commands import CHECKED, EXPORT_FORMATS, FAMILIES, MOTION_FORMATS, RECORDED, identify
from dynid.app.readiness import CHANNELS, readiness
from dynid.app.workspace import EXPERIMENT, EXPORTS, LIVE, ROLES, RUNS, Project, Workspace, absent
from dynid.base import (
    DynidError,
    Finding,
    InputError,
    Place,
    RefusedError,
    ResourceError,
    UsageError,
    __version__,
    environment,
)

TEMPLATES = Path(__file__).parent / "templates"
TABS = {
    "identify": "Identify",
    "runs": "Runs",
    "motion": "Design a motion",
    "live": "Follow live",
    "jobs": "Jobs",
}
# HTTP status of each kind of error.
_STATUS: tuple[tuple[type[DynidError], int], ...] = (
    (RefusedError, 409),
    (UsageError, 400),
    (InputError, 400),
    (ResourceError, 507),
)
# Most choices in the table of columns by joint; with more the page is slow and the experiment file must be edited.
MOST_CHOICES = 40_000


def home(workspace: Workspace, csrf: str) -> str:
    """Return the page of all projects."""
    return _render("home.html.jinja", csrf=csrf, title="Projects", projects=workspace.projects())


def project_page(project: Project, tab: str, csrf: str, query: Mapping[str, str]) -> str:
    """Return a tab of a project; raises InputError for unknown tabs."""
    if tab not in TABS:
        raise absent(tab)
    project.adopt_demo()
    all_jobs = jobs.jobs(project)
    newest: dict[str, jobs.Job] = {}
    for job in all_jobs:
        newest.setdefault(job.command.kind, job)
    shown: dict[str, Any] = {kind: job_data(project, latest.id) for kind, latest in newest.items()}
    context = {
        "csrf": csrf,
        "title": project.about.name,
        "project": project,
        "about": project.about,
        "tabs": TABS,
        "tab": tab,
        "base": f"/p/{project.id}",
        # None for a kind without a job.
        "jobs": defaultdict(lambda: None, shown),
        "at_work": sum(job.state == jobs.RUNNING for job in all_jobs),
        "where": str(project.folder),
    }
    return _render(f"{tab}.html.jinja", **context, **_TAB_CONTEXT[tab](project, all_jobs, query))


def job_data(project: Project, name: str) -> dict[str, Any]:
    """Return what a page shows of a job, as plain data."""
    job = jobs.job_of(project, name)
    printed = job.printed
    ended = job.state != jobs.RUNNING
    return {
        "id": job.id,
        "kind": job.command.kind,
        "title": job.command.title,
        "command": job.command.shown,
        "state": job.state,
        "code": job.code,
        "seconds": round(job.seconds, 1),
        "stage": job.progress.get("stage", ""),
        "share": job.progress.get("share"),
        "asked": (job.folder / "stop").exists(),
        "result": job.command.result if ended and job.state == jobs.DONE else "",
        "created": job.created,
        "lines": "\n".join(printed.get("lines", ())) if not job.command.live else job.text("stdout"),
        "errors": job.text("stderr") if ended or job.command.live else "",
        "diagnostics": [_diagnostic(item) for item in printed.get("diagnostics", ())],
    }


def error_page(message: str, status: int, back: str | None) -> str:
    """Return a page with an error message."""
    path = urlsplit(back).path if back else ""
    return _render("error.html.jinja", csrf="", title="Error", message=message, status=status, back=path)


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, DynidError) and error.identifier == "not-found":
        return 404
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _diagnostic(stored: Mapping[str, Any]) -> dict[str, str]:
    finding = Finding(stored["severity"], stored["code"], stored["text"], Place(**stored["place"]))
    return {"severity": stored["severity"], "text": str(finding), "code": stored["code"]}


def _identify(project: Project, all_jobs: Sequence[jobs.Job], _query: Mapping[str, str]) -> dict[str, Any]:
    state = readiness(project)
    mapped = state.mapped
    cells = 0 if mapped is None else len(mapped.joints) * len(CHANNELS) * len(mapped.choices)
    run = next(
        (job for job in all_jobs if job.command.kind in ("identify", "demo") and job.state == jobs.DONE), None
    )
    return {
        "state": state,
        "mapped": mapped,
        "channels": CHANNELS,
        "few": cells <= MOST_CHOICES,
        "roles": ROLES,
        "files": [
            (name, (project.folder / name).stat().st_size)
            for name in project.files_below("robot")
            if name not in project.robots()
        ],
        "run": _run(project, run.command.result) if run is not None else None,
        "checked": CHECKED if (project.folder / CHECKED).is_file() else "",
        "recorded": RECORDED if (project.folder / RECORDED).is_file() else "",
        "experiment": _text(project.folder / EXPERIMENT),
        "accepted": project.accepted,
        "next_run": identify(project, {}).shown if not state.missing else "",
        "free_run": project.free_name(RUNS, "run").removeprefix(f"{RUNS}/"),
    }


def _runs(project: Project, _all_jobs: Sequence[jobs.Job], query: Mapping[str, str]) -> dict[str, Any]:
    runs = [_run(project, name) for name in reversed(project.runs())]
    shown = query.get("show", "")
    pages = [item for item in project.files_below("pages") if item.startswith("pages/comparison")]
    allowed = {f"{item['path']}/report.html" for item in runs} | set(pages)
    return {
        "runs": runs,
        "shown": shown if shown in allowed else "",
        "formats": EXPORT_FORMATS,
        "pages": pages,
        "exports": [(name, (project.folder / name).stat().st_size) for name in project.files_below(EXPORTS)],
        "logs": project.logs(),
    }


def _motion(project: Project, _all_jobs: Sequence[jobs.Job], query: Mapping[str, str]) -> dict[str, Any]:
    plans = list(reversed(project.plans()))
    shown = query.get("show", "")
    return {
        "plans": [(plan, project.files_below(plan)) for plan in plans],
        "shown": shown if shown in {f"{plan}/{name}" for plan in plans for name in _PLAN_PAGES} else "",
        "families": FAMILIES,
        "formats": MOTION_FORMATS,
        "runs": project.runs(),
    }


# Page of a plan with its figures and the moving robot.
_PLAN_PAGES = ("picture.html",)


def _live(project: Project, all_jobs: Sequence[jobs.Job], _query: Mapping[str, str]) -> dict[str, Any]:
    job = next((job for job in all_jobs if job.command.kind == "watch"), None)
    page = (
        str(Path(job.command.arguments[job.command.arguments.index("--out") + 1]).with_suffix(".html"))
        if job
        else ""
    )
    return {
        "logs": project.live_logs(),
        "folder": str(project.folder / LIVE),
        "page": page if page and (project.folder / page).is_file() else "",
        "mapped": (project.folder / EXPERIMENT).is_file(),
    }


def _jobs(project: Project, all_jobs: Sequence[jobs.Job], _query: Mapping[str, str]) -> dict[str, Any]:
    return {"all": [job_data(project, job.id) for job in all_jobs]}


_TAB_CONTEXT = {"identify": _identify, "runs": _runs, "motion": _motion, "live": _live, "jobs": _jobs}


def _run(project: Project, path: str) -> dict[str, Any]:
    """Read name, verdict and headline of a run from its run.json."""
    try:
        stored = json.loads((project.folder / path / "run.json").read_text(encoding="utf-8"))
        level, headline = str(stored["verdict"]["level"]), str(stored["verdict"]["headline"])
    except (OSError, ValueError, KeyError, TypeError):
        level, headline = "", "this run folder cannot be read"
    return {
        "path": path,
        "name": Path(path).name,
        "level": level,
        "headline": headline,
        "report": (project.folder / path / "report.html").is_file(),
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = environment(TEMPLATES, size=_size, address=quote, when=_when, span=_span)
    made.globals["version"] = __version__
    return made


def _render(template: str, **context: Any) -> str:
    return _environment().get_template(template).render(**context)


def _size(count: float) -> str:
    unit = "bytes"
    for larger in ("kB", "MB", "GB"):
        if count < 1000:
            break
        count, unit = count / 1000, larger
    return f"{count:.3g} {unit}"


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"
