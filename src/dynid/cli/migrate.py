"""dynid migrate: convert run folders and experiment files of earlier versions."""

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
    """Convert run folders and experiment files of earlier versions to the present format, in place."""
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
            say(f"{path}: " + ("former defaults of method 'feasible' added" if changed else "unchanged"))
            continue
        files = migrated_files(path)
        if files:
            write_files(files)
            renewed.append(path)
            if (path / MANIFEST).exists():
                renew_checksums(path)
        say(f"{path}: " + (f"converted to format {FORMAT}" if files else f"already in format {FORMAT}"))
    set_results(lambda: {"written": renewed})
