"""Socket, server and shutdown of `dynid app`; the only file that imports uvicorn."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

from dynid.app import jobs
from dynid.app.security import Guard, loopback
from dynid.app.workspace import Workspace
from dynid.base import ResourceError

# s: time to finish answers when the server ends.
GRACE = 2


def listening(host: str, port: int) -> socket.socket:
    """Open a loopback socket; raises RefusedError for another host, ResourceError if the port is in use."""
    family = socket.AF_INET6 if ":" in loopback(host) else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen()
    except (OSError, OverflowError) as error:
        bound.close()
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        raise ResourceError(
            "port-taken" if taken else "port",
            found=f"port {port} of {host} {'already in use' if taken else f'not available: {error}'}",
            expected="a free port",
            do="choose another with --port, or --port 0 for any free one",
        ) from error
    return bound


def serve(
    folder: Path,
    host: str,
    port: int,
    most_bytes: int,
    begin: Callable[[str], None],
    end: Callable[[list[str]], None],
) -> None:
    """Serve a workspace until Ctrl-C or SIGTERM; running jobs continue.

    Parameters
    ----------
    folder : Path
        Folder of the projects.
    host, port : str, int
        Address of this machine to listen on.
    most_bytes : int
        Largest size of an upload.
    begin : callable
        Called with the link that contains the token.
    end : callable
        Called at the end with the commands that are still running, each with its process id.

    Raises
    ------
    ResourceError
        If Starlette or uvicorn is not installed, or the port is in use.
    RefusedError
        If other machines can reach the host, or the folder is in use or has other content.

    """
    try:
        import uvicorn

        from dynid.app.server import application
    except ImportError as error:
        raise ResourceError(
            "missing-package",
            found=f"no package '{error.name}'",
            expected="Starlette and uvicorn",
            do="pip install 'dynid[app]'",
        ) from error
    bound = listening(host, port)
    try:
        workspace = Workspace(folder)
        release = workspace.open()
        try:
            number = bound.getsockname()[1]
            guard = Guard.new(number)
            config = uvicorn.Config(
                application(workspace, guard, most_bytes),
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=GRACE,
                timeout_keep_alive=5,
            )
            server = uvicorn.Server(config)
            server.capture_signals = nullcontext  # type: ignore[assignment,method-assign]  # it sends them again
            shown = f"[{host}]" if ":" in host else host
            with _ending(server):
                begin(f"http://{shown}:{number}/?token={guard.token}")
                asyncio.run(server.serve(sockets=[bound]))
            busy = [
                f"{job.command.shown} (process {job.pid})"
                for project in workspace.projects()
                for job in jobs.jobs(project)
                if job.state == jobs.RUNNING
            ]
            end(busy)
        finally:
            release()
    finally:
        bound.close()


@contextmanager
def _ending(server: Any) -> Iterator[None]:
    """End the server at Ctrl-C or SIGTERM, at once for the second; restore the previous handlers afterwards."""

    def asked(_number: int, _frame: FrameType | None) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, asked) for number in numbers}
    # The command line's own signal handling would end the process before the server ends.
    descriptor = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(descriptor)
        for number, handler in before.items():
            signal.signal(number, handler)
