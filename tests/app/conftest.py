"""A server of the app on loopback, and users with browsers of the simplest kind."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from dynid.app import jobs
from dynid.app.workspace import Project, Workspace
from tests.command_line import make_log
from tests.report.test_browser import browser  # noqa: F401 - a fixture

MOST_BYTES = 2_000_000
# A job that does not end by then never will, s.
PATIENCE = 300.0


@dataclass
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class User:
    """One browser: remembers its cookie, and sends what a page's own form would."""

    port: int
    token: str
    cookies: dict[str, str] = field(default_factory=dict)
    csrf: str = ""

    def ask(
        self, method: str, path: str, body: bytes | Iterator[bytes] | None = None, **headers: str
    ) -> Answer:
        sent = {"Host": f"127.0.0.1:{self.port}"}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, sent, encode_chunked="Transfer-Encoding" in sent)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            if "set-cookie" in found:
                name, _, value = found["set-cookie"].partition(";")[0].partition("=")
                self.cookies[name] = value
            return Answer(answer.status, found, answer.read().decode("utf-8", errors="replace"))
        finally:
            connection.close()

    def enter(self) -> User:
        """Opens the link with the token."""
        assert self.ask("GET", f"/?token={self.token}").status == 303
        found = re.search(r'name="csrf" content="([0-9a-f]+)"', self.ask("GET", "/").text)
        assert found is not None
        self.csrf = found[1]
        return self

    def page(self, path: str) -> str:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer.text
        return answer.text

    def send(self, path: str, **fields: Any) -> Answer:
        """Sends a form; returns the answer without following it."""
        body = urlencode({"csrf": self.csrf, **fields}, doseq=True).encode()
        return self.ask("POST", path, body, Origin=f"http://127.0.0.1:{self.port}")

    def upload(self, project: str, name: str, content: bytes, kind: str = "") -> Answer:
        path = f"/p/{project}/files?kind={kind}&name={quote(name, safe='')}"
        origin = f"http://127.0.0.1:{self.port}"
        return self.ask("PUT", path, content, Origin=origin, X_CSRF_Token=self.csrf)

    def new_project(self, name: str = "arm") -> str:
        answer = self.send("/projects", name=name)
        assert answer.status == 303, answer.text
        return answer.headers["location"].split("/")[2]


@dataclass
class Served:
    """A running server."""

    workspace: Workspace
    port: int
    token: str

    def user(self) -> User:
        return User(self.port, self.token).enter()


@contextmanager
def serving(folder: Path, most_bytes: int = MOST_BYTES) -> Iterator[Served]:
    """A server in a thread of this process."""
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install dynid[app]")
    pytest.importorskip("starlette", reason="Starlette is not installed: pip install dynid[app]")
    from dynid.app.security import Guard
    from dynid.app.serve import listening
    from dynid.app.server import application

    workspace = Workspace(folder)
    release = workspace.open()
    bound = listening("127.0.0.1", 0)
    guard = Guard.new(bound.getsockname()[1])
    config = uvicorn.Config(
        application(workspace, guard, most_bytes), log_level="warning", lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    yield Served(workspace, guard.port, guard.token)
    server.should_exit = True
    thread.join(PATIENCE)
    for job in (one for project in workspace.projects() for one in jobs.jobs(project)):
        jobs.stop(job)
    bound.close()
    release()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("app") / "workspace") as found:
        yield found


@pytest.fixture
def user(served: Served) -> User:
    return served.user()


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace without a server."""
    made = Workspace(tmp_path / "workspace")
    release = made.open()
    yield made
    for project in made.projects():
        for job in jobs.jobs(project):
            jobs.stop(job)
    release()


@pytest.fixture(scope="session")
def csv_log(robot_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of the two-joint arm as text, so that it can be followed."""
    return make_log(robot_file, tmp_path_factory.mktemp("csv") / "log.csv", 1, seconds=8.0)


def ended(project: Project, job: str | None = None) -> jobs.Job:
    """The job, or the newest one, when it has ended."""
    found = jobs.jobs(project)[0].id if job is None else job
    return until(lambda: one if (one := jobs.job_of(project, found)).state != jobs.RUNNING else None)


def until(look: Callable[[], Any]) -> Any:
    """What `look` returns as soon as it returns something."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it does not end")
