"""Jobs: how they end, what is known of them, and that they outlive the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dynid.app import jobs
from dynid.app.jobs import Command
from dynid.app.workspace import Project, Workspace
from dynid.base import RefusedError
from tests.app.conftest import PATIENCE, ended, until

# An error before anything heavy is imported.
QUICK = Command("check", "Check", ("average", "logs/absent.csv", "--out", "x"))


@pytest.fixture
def project(workspace: Workspace, robot_file: Path, csv_log: Path) -> Project:
    made = workspace.new_project("arm")
    (made.folder / "robot" / "two.toml").write_bytes(robot_file.read_bytes())
    (made.folder / "live" / "now.csv").write_bytes(csv_log.read_bytes())
    return made


def endless(project: Project, *words: str) -> jobs.Job:
    """A job that goes on until it is ended; where no words are given, the command that starts quickest."""
    words = words or ("app", "pages/inner", "--port", "0", "--no-browser")
    job = jobs.start(project, Command("watch", "Follow", words, live=True))
    return until(lambda: one if (one := jobs.job_of(project, job.id)).text("stdout") else None)


def test_a_job_says_what_the_command_line_says(project: Project) -> None:
    job = jobs.start(project, QUICK, lambda: {"files": "key"})
    assert job.command.shown == "dynid average logs/absent.csv --out x"
    done = ended(project, job.id)
    assert done.state == jobs.FAILED
    assert dict(done.keys) == {"files": "key"}
    call = [sys.executable, "-m", "dynid", *QUICK.arguments]
    line = subprocess.run(call, cwd=project.folder, capture_output=True, text=True, check=False)
    assert done.text("stderr") == line.stderr
    assert line.returncode == done.code == 2


def test_a_job_that_is_stopped(project: Project) -> None:
    job = endless(project, "watch", "robot/two.toml", "live/now.csv", "--wait", "3600", "--every", "0.5")
    assert job.state == jobs.RUNNING
    begun = time.monotonic()
    jobs.stop(job)
    done = ended(project, job.id)
    assert time.monotonic() - begun < PATIENCE / 2
    assert done.state == jobs.STOPPED
    assert "interrupted: nothing was written" in done.text("stderr")
    jobs.stop(done)  # does nothing
    assert ended(project, job.id).state == jobs.STOPPED


def test_a_job_that_is_killed_was_interrupted(project: Project) -> None:
    job = endless(project)
    assert job.pid is not None
    os.killpg(job.pid, signal.SIGKILL)
    done = ended(project, job.id)
    assert (done.state, done.code) == (jobs.INTERRUPTED, None)
    # The number of its process may be another's by now: nothing is sent to it.
    jobs.stop(done)
    assert not (done.folder / "stop").exists()


def test_stopping_twice_ends_what_does_not_listen(project: Project) -> None:
    job = endless(project)
    (job.folder / "stop").touch()
    jobs.stop(job)
    assert ended(project, job.id).state == jobs.STOPPED


def test_only_so_many_at_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynid.app.jobs.MOST_RUNNING", 1)
    job = endless(project)
    other = project.workspace.new_project("other")
    with pytest.raises(RefusedError, match="1 running jobs"):
        jobs.start(other, QUICK)
    assert jobs.jobs(other) == []
    jobs.stop(job)
    ended(project, job.id)
    assert ended(other, jobs.start(other, QUICK).id).state == jobs.FAILED


def test_nothing_in_a_project_is_imported(project: Project) -> None:
    for name in ("json", "dynid", "numpy", "sitecustomize"):
        (project.folder / f"{name}.py").write_text("raise SystemExit(99)")
    assert ended(project, jobs.start(project, QUICK).id).code == 2


def test_a_damaged_job_hides_no_other(project: Project) -> None:
    ended(project, jobs.start(project, QUICK).id)
    (project.folder / "jobs" / "0007").mkdir()
    (project.folder / "jobs" / "0008").mkdir()
    (project.folder / "jobs" / "0008" / "job.json").write_text("{")
    assert [job.id for job in jobs.jobs(project)] == ["0001"]
    assert ended(project, jobs.start(project, QUICK).id).id == "0009"


def served(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """The command, and the link that it printed."""
    call = [sys.executable, "-m", "dynid", "app", str(folder), "--port", "0", "--no-browser"]
    server = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    first = server.stdout.readline()
    assert first.startswith("open http://127.0.0.1:"), first
    return server, first.split()[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_jobs_outlive_the_server(
    tmp_path: Path, robot_file: Path, csv_log: Path, number: signal.Signals
) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install dynid[app]")
    from urllib.parse import urlsplit

    from tests.app.conftest import User

    folder = tmp_path / "workspace"
    server, link = served(folder)
    address = urlsplit(link)
    user = User(address.port or 0, address.query.removeprefix("token=")).enter()
    name = user.new_project()
    project = Workspace(folder.resolve()).project(name)
    user.upload(name, "two.toml", robot_file.read_bytes())
    (project.folder / "live" / "now.csv").write_bytes(csv_log.read_bytes())
    assert user.send(f"/p/{name}/do/watch", log="live/now.csv", wait=3600).status == 303
    job = until(lambda: jobs.jobs(project)[0] if jobs.jobs(project)[0].text("stdout") else None)
    server.send_signal(number)
    said, _ = server.communicate(timeout=PATIENCE)
    assert jobs.job_of(project, job.id).state == jobs.RUNNING
    if number != signal.SIGKILL:
        assert server.returncode == 0
        assert "still running: dynid watch robot/two.toml live/now.csv" in said
        assert str(job.pid) in said
    again, link = served(folder)
    address = urlsplit(link)
    user = User(address.port or 0, address.query.removeprefix("token=")).enter()
    assert 'class="job running"' in user.page(f"/p/{name}/live")
    assert user.send(f"/p/{name}/jobs/{job.id}/stop").status == 303
    assert ended(project, job.id).state == jobs.STOPPED
    assert 'class="job stopped"' in user.page(f"/p/{name}/live")
    again.terminate()
    assert again.wait(PATIENCE) == 0
    again.communicate()


def test_a_second_server_on_a_workspace_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install dynid[app]")
    server, _ = served(tmp_path / "workspace")
    call = [sys.executable, "-m", "dynid", "app", str(tmp_path / "workspace"), "--port", "0"]
    second = subprocess.run(call, capture_output=True, text=True, check=False)
    assert second.returncode == 7
    assert f"(pid {server.pid})" in second.stderr
    server.terminate()
    said, _ = server.communicate(timeout=PATIENCE)
    assert server.returncode == 0
    assert "still running" not in said
