"""dynid app: local web pages for identification without typing commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import say


def command(
    folder: Annotated[
        Path, typer.Argument(help="Folder for projects; created if it does not exist.", metavar="FOLDER")
    ] = Path("dynid-app"),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 = any free port.")] = 8765,
    host: Annotated[str, typer.Option("--host", help="Address of this machine to listen on.")] = "127.0.0.1",
    most_upload: Annotated[
        float, typer.Option("--most-upload", min=0.001, help="Largest file that may be uploaded, MiB.")
    ] = 4096.0,
    browser: Annotated[
        bool | None,
        typer.Option(
            "--browser/--no-browser",
            help="Open the page in a browser; the default on a terminal.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve a local web page to upload, check, identify, compare and export robots and logs."""
    import sys
    import webbrowser

    from dynid.app.serve import serve

    def begin(link: str) -> None:
        say(f"open {link}")
        say(f"projects are in {folder}; stop with Ctrl-C")
        if sys.stdout.isatty() if browser is None else browser:
            webbrowser.open(link)

    def end(busy: list[str]) -> None:
        for name in busy:
            say(f"still running: {name}")
        say(f"stopped; dynid app {folder} shows the projects again")

    serve(folder, host, port, int(most_upload * 2**20), begin, end)
