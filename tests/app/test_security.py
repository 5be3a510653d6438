"""Who may ask the server, what leaves the workspace, and how large a file may be."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import MOST_BYTES, Served, User
from tests.command_line import Run


def loopback(port: int) -> str:
    return f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "10.0.0.1", "", "[::1"]
)
def test_a_foreign_host_is_refused(served: Served, user: User, host: str) -> None:
    answer = user.ask("GET", "/", Host=host)
    assert answer.status == 403
    assert "foreign-host" in answer.text


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]"])
def test_the_names_of_this_machine_are_known_on_any_port(user: User, name: str) -> None:
    assert user.ask("GET", "/", Host=f"{name}:9999").status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://127.0.0.1",
        "null",
        "http://127.0.0.1:1",
        "http://localhost",
        "http://[",
    ],
)
def test_a_foreign_origin_is_refused(served: Served, user: User, origin: str) -> None:
    body = f"csrf={user.csrf}&name=x".encode()
    answer = user.ask("POST", "/projects", body, Origin=origin)
    assert answer.status == 403
    assert "foreign-origin" in answer.text
    assert user.ask("POST", "/projects", body).status == 403


@pytest.mark.parametrize("token", ["", "csrf=&", "csrf=0123&", "csrf=" + 64 * "0" + "&"])
def test_a_form_without_our_token_is_refused(user: User, token: str) -> None:
    answer = user.ask("POST", "/projects", f"{token}name=x".encode(), Origin=loopback(user.port))
    assert answer.status == 403
    assert "no-csrf-token" in answer.text


def test_an_upload_without_our_token_is_refused(user: User) -> None:
    project = user.new_project()
    path = f"/p/{project}/files?name=a.csv"
    assert user.ask("PUT", path, b"t\n", Origin=loopback(user.port)).status == 403


@pytest.mark.parametrize("path", ["/", "/p/x", "/assets/app.css", "/absent", "/projects"])
@pytest.mark.parametrize("given", ["", "?token=", "?token=wrong", "?token=%00"])
def test_nothing_without_the_token(served: Served, path: str, given: str) -> None:
    stranger = User(served.port, "")
    answer = stranger.ask("GET", path + given)
    assert answer.status == 401
    assert "error[token]" in answer.text or "error[token]" in answer.text.replace("&#39;", "'")
    assert stranger.cookies == {}
    assert stranger.ask("GET", path, Cookie=f"dynid-app-{served.port}=wrong").status == 401


def test_the_token_becomes_a_cookie_and_leaves_the_address(served: Served) -> None:
    user = User(served.port, served.token)
    answer = user.ask("GET", f"/?token={served.token}")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "samesite=lax" in answer.headers["set-cookie"].lower()
    assert served.token not in answer.headers["set-cookie"]
    assert served.token not in user.page("/")


@pytest.mark.parametrize(
    "path",
    [
        "../project.json", "..%2f..%2fapp.json", "%2e%2e/project.json", "/etc/passwd", "%2fetc%2fpasswd",
        "logs/../project.json", "logs//a.csv", "logs/.", "logs", "", "..\\..\\app.json", "logs/a.csv%00",
        "x" * 400, "link", "linked/secret",
    ],
)  # fmt: skip
def test_nothing_outside_is_served(served: Served, user: User, path: str, tmp_path: Path) -> None:
    project = user.new_project()
    folder = served.workspace.project(project).folder
    user.upload(project, "a.csv", b"t\n")
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "linked").symlink_to(tmp_path)
    answer = user.ask("GET", f"/p/{project}/out/{path}")
    assert answer.status == 404
    assert "secret" not in answer.text.replace("linked/secret", "")


@pytest.mark.parametrize("project", ["..", ".", "%2e%2e", "absent", "A", "x/../y", "-"])
def test_no_project_outside_the_workspace(user: User, project: str) -> None:
    assert user.ask("GET", f"/p/{project}").status in (404, 405)
    assert user.ask("GET", f"/p/{project}/out/project.json").status == 404


def test_links_in_a_project_are_followed_nowhere(served: Served, user: User, tmp_path: Path) -> None:
    project = served.workspace.project(user.new_project())
    (tmp_path / "secret.csv").write_text("t,q\n0,1\n")
    (project.folder / "logs" / "outside.csv").symlink_to(tmp_path / "secret.csv")
    (project.folder / "live" / "outside.csv").symlink_to(tmp_path / "secret.csv")
    assert project.logs() == ()
    assert project.live_logs() == ()
    # An upload does not write through a link, either.
    answer = user.upload(project.id, "outside.csv", b"mine")
    assert answer.status == 400
    assert (tmp_path / "secret.csv").read_text() == "t,q\n0,1\n"


def test_too_large_an_upload_is_refused_and_leaves_nothing(served: Served, user: User) -> None:
    project = served.workspace.project(user.new_project())
    origin = loopback(user.port)
    path = f"/p/{project.id}/files?name=large.csv"
    # By its declared length, before anything is sent.
    with socket.create_connection(("127.0.0.1", user.port), timeout=30) as line:
        cookie = "; ".join(f"{k}={v}" for k, v in user.cookies.items())
        line.sendall(
            f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{user.port}\r\nCookie: {cookie}\r\nOrigin: {origin}\r\n"
            f"X-CSRF-Token: {user.csrf}\r\nContent-Length: {MOST_BYTES + 1}\r\n\r\n".encode()
        )
        assert line.recv(100).startswith(b"HTTP/1.1 413")

    # By what comes, where no length is declared.
    def parts() -> Iterator[bytes]:
        for _ in range(MOST_BYTES // 100_000 + 2):
            yield b"x" * 100_000

    try:
        answer = user.ask(
            "PUT", path, parts(), Origin=origin, X_CSRF_Token=user.csrf, Transfer_Encoding="chunked"
        )
        assert answer.status == 413
        assert "more than 1.91 MiB" in answer.text
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server has hung up by then
    assert [one.name for one in (project.folder / "logs").iterdir()] == []
    assert user.upload(project.id, "fits.csv", b"x" * MOST_BYTES).status == 200
    assert user.send("/projects", name="x" * (2 << 20)).status == 413
    many = f"csrf={user.csrf}" + "&a=" * 30_000
    assert user.ask("POST", "/projects", many.encode(), Origin=loopback(user.port)).status == 413


def test_an_upload_that_is_cut_off_leaves_nothing(served: Served, user: User) -> None:
    project = served.workspace.project(user.new_project())
    with socket.create_connection(("127.0.0.1", user.port), timeout=30) as line:
        cookie = "; ".join(f"{k}={v}" for k, v in user.cookies.items())
        line.sendall(
            f"PUT /p/{project.id}/files?name=cut.csv HTTP/1.1\r\nHost: 127.0.0.1:{user.port}\r\nCookie: {cookie}\r\n"
            f"Origin: {loopback(user.port)}\r\nX-CSRF-Token: {user.csrf}\r\nContent-Length: 1000\r\n\r\nhalf".encode()
        )
    user.page(f"/p/{project.id}")  # answered after the end of the one before was seen
    assert project.logs() == ()


def test_every_answer_has_its_policy(served: Served, user: User) -> None:
    project = served.workspace.project(user.new_project())
    (project.folder / "pages" / "page.html").write_text("<script>fetch('/')</script>")
    (project.folder / "pages" / "data.csv").write_text("t\n")
    for path in ("/", f"/p/{project.id}", "/assets/app.js", "/absent"):
        answer = user.ask("GET", path)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    written = user.ask("GET", f"/p/{project.id}/out/pages/page.html")
    assert written.headers["content-security-policy"].startswith("sandbox allow-scripts allow-downloads;")
    assert "connect-src" not in written.headers["content-security-policy"]  # nothing, by default-src
    table = user.ask("GET", f"/p/{project.id}/out/pages/data.csv")
    assert table.headers["content-disposition"].startswith("attachment")


def test_names_are_shown_and_not_run(served: Served, user: User) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    project = user.new_project(hostile)
    assert user.upload(project, f"{hostile}.csv", b"t\n").status == 200
    for path in ("/", f"/p/{project}"):
        assert "<img" not in user.page(path)


def test_only_what_is_offered_can_be_asked_for(served: Served, user: User) -> None:
    project = user.new_project()
    for action in ("absent", "demo", "../x", "init%2f.."):
        assert user.send(f"/p/{project}/do/{action}").status == 404
    assert user.send(f"/p/{project}/do/init").status == 400  # no robot yet
    assert user.ask("GET", f"/p/{project}/do/init").status == 404
    assert user.ask("GET", f"/p/{project}/jobs/0001").status == 404
    assert user.send(f"/p/{project}/jobs/..%2f..%2f/stop").status == 404


def test_the_port_is_taken(run: Run, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        done = run("app", tmp_path / "workspace", "--port", other.getsockname()[1])
    assert done.code == 6
    assert "port-taken" in done.err
    assert "--port" in done.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org", ""])  # noqa: S104 - refused
def test_only_this_machine_is_listened_to(run: Run, tmp_path: Path, host: str) -> None:
    done = run("app", tmp_path / "workspace", "--host", host, "--port", 0)
    assert done.code == 7
    assert "not-loopback" in done.err
    assert not (tmp_path / "workspace").exists()


def test_a_folder_of_something_else_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    done = run("app", tmp_path, "--port", 0)
    assert done.code == 7
    assert "not-a-workspace" in done.err
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.tex"]
