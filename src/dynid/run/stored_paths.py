"""Paths in a run folder: stored as the command named them, found again from any working folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dynid.base.records import dataclass

_PATHS = ("robot", "config")
_LISTS = ("logs", "validate")
_HASHES = ("logs", "validation_logs")


def folders_of(run: Path) -> dict[str, str]:
    """Folders that the paths in a run folder refer to, as plain data."""
    return {"run": str(run.resolve()), "working": str(Path.cwd())}


@dataclass(frozen=True)
class StoredPaths:
    """Finds the files that a run folder names.

    Parameters
    ----------
    folder : Path
        Where the run folder is now.
    run, working : str
        Where it was written, and the working folder that its relative paths refer to.

    """

    folder: Path
    run: str
    working: str

    @staticmethod
    def of(run: Mapping[str, Any], folder: Path) -> StoredPaths | None:
        """Read from the data of run.json; None for a folder of an earlier version, whose paths stay unchanged."""
        folders = run.get("folders")
        if not folders:
            return None
        return StoredPaths(folder.resolve(), str(folders["run"]), str(folders["working"]))

    def find(self, named: str) -> str:
        """Present path of a file: relative to the run folder if it is there, else where it was.

        A path that is valid from the present working folder is returned unchanged.
        """
        then = Path(self.working, named)
        there = [then]
        with suppress(ValueError):  # on another drive than the run
            # Symbolic links are resolved up to the parent, because ".." also leaves the real folder.
            there.insert(0, self.folder / os.path.relpath(then.parent.resolve() / then.name, self.run))
        place = next((path for path in there if path.exists()), then)
        # A name without a file (such as that of an example) stays, unless a file of this name is here.
        if not place.exists() and not Path(named).exists():
            return named
        same = os.path.realpath(named) == os.path.realpath(place)
        return named if same else os.path.normpath(place)

    def in_run(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """Data of run.json with paths valid from the present working folder."""
        files, provenance = dict(run["files"]), dict(run["provenance"])
        for key in _PATHS:
            if files.get(key):
                files[key] = self.find(files[key])
        for key in _LISTS:
            if files.get(key):
                files[key] = [self.find(path) for path in files[key]]
        for key in _HASHES:
            if provenance.get(key):
                provenance[key] = {self.find(path): value for path, value in provenance[key].items()}
        return {**run, "files": files, "provenance": provenance}

    def in_model(self, model: Mapping[str, Any]) -> dict[str, Any]:
        """Data of model.json with present paths of the robot file and its packages."""
        robot = dict(model["robot"])
        if robot["source"]:
            robot["source"] = self.find(robot["source"])
        reading = dict(robot.get("reading", {}))
        if reading.get("packages"):
            reading["packages"] = [self.find(path) for path in reading["packages"]]
            robot["reading"] = reading
        return {**model, "robot": robot}
