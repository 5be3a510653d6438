"""Targets of an export: checked before anything is computed, written as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dynid.base.atomic_write import refuse_existing, staged_files
from dynid.base.errors import RefusedError, ResourceError


def check_targets(
    targets: Sequence[Path], inputs: Sequence[Path], force: bool | None, option: str = "--out"
) -> None:
    """Checks where files are to be written before anything is computed.

    force: whether existing files are replaced, None = the command has no --force.    option: that names the targets.

    Raises RefusedError for a target that exists (unless forced) or is an input, ResourceError for one that cannot be
    written. Folders that are missing are made once there is something to write.
    """
    sources = {path.resolve() for path in inputs}
    for target in targets:
        if target.resolve() in sources:
            raise RefusedError(
                "output-is-input", found=f"output '{target}' is the file to be read", expected="another file"
            )
        if target.is_dir():
            raise RefusedError(
                "output-exists", found=f"output '{target}' is a folder", expected="a file name"
            )
        if not force:
            refuse_existing(
                target, f"choose another {option}" + (", or --force to replace it" if force is False else "")
            )
        folder = next(one for one in target.resolve().parents if one.exists())
        if not folder.is_dir():
            raise ResourceError(
                "cannot-write",
                found=f"'{folder}', which is a file, above '{target}'",
                expected=f"a folder for {option}",
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ResourceError(
                "cannot-write",
                found=f"no permission to write in '{folder}'",
                expected=f"a writable folder for {option}",
            )


def write_files(files: Mapping[Path, bytes]) -> None:
    """Writes every file beside its place, then moves all of them there; raises ResourceError if it cannot."""
    with staged_files(*files) as scratch:
        for path, data in zip(scratch, files.values(), strict=True):
            path.write_bytes(data)
