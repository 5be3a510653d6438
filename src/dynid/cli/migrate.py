"""dynid migrate: run folders and experiment files of earlier versions, written anew in the present form."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import say, set_results


def command(
    paths: Annotated[
        list[Path], typer.Argument(help="Run folders, or experiment files (.toml).", metavar="RUN|FILE...")
    ],
) -> None:
    """Write run folders and experiment files of an earlier version in the form of this one, in their place."""
    from dynid.base.files import MANIFEST, renew_checksums
    from dynid.exporters.export import write_files
    from dynid.run.serial import FORMAT, experiment_text
    from dynid.run.store import migrated_files

    renewed: list[Path] = []
    for path in paths:
        if path.suffix.lower() == ".toml":
            text = experiment_text(path)
            changed = text != path.read_text(encoding="utf-8-sig")
            if changed:
                write_files({path: text.encode()})
                renewed.append(path)
            say(
                f"{path}: "
                + ("method 'feasible' has its former prior written out" if changed else "as it is")
            )
            continue
        files = migrated_files(path)
        if files:
            write_files(files)
            renewed.append(path)
            if (path / MANIFEST).exists():
                renew_checksums(path)
        say(f"{path}: " + (f"written in format {FORMAT}" if files else f"is of format {FORMAT} already"))
    set_results(lambda: {"written": renewed})
