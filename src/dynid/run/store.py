"""A run is a folder: run.json, model.json, report.html, and parameters, residuals and factors as Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from dynid.base.errors import DynidError, InputError, Place, ResourceError
from dynid.base.files import FolderKind, check_place, edited_files, recover, staged_files, staged_folder
from dynid.base.records import dataclass, plain
from dynid.base.registry import Need, refuse_missing
from dynid.choose.selection import selection_from_dict
from dynid.diagnosis.finding import finding_from_dict
from dynid.robot.serial import robot_from_dict
from dynid.run.result import Identification, Validation
from dynid.run.serial import (
    FORMAT,
    base_from_dict,
    choice_from_dict,
    diagnostics_from_list,
    estimate_from_dict,
    model_to_dict,
    run_to_dict,
    scores_from_dict,
    shape_from_dict,
    to_present,
    verdict_from_dict,
)
from dynid.run.tables import (
    read_factors,
    read_residuals,
    write_factors,
    write_links,
    write_parameters,
    write_residuals,
)
from dynid.terms.catalogue import names_in_spec, terms_from_spec

_RUN_FILES = (
    "run.json",
    "model.json",
    "links.parquet",
    "parameters.parquet",
    "residuals.parquet",
    "factors.parquet",
    "report.html",
)
REPLAY_FILE = "replay.json"
_DEMO_FILES = ("robot.toml", "logs/train.parquet", "logs/validate.parquet")
_edited: list[Path] = []


def check_output(folder: str | Path, inputs: tuple[Path, ...] = (), force: bool = False) -> tuple[str, ...]:
    """Check an output folder before anything is computed; return the names of foreign files that will stay in it.

    Parameters
    ----------
    folder : str or Path
        Run folder.
    inputs : tuple of Path
        Files that the command reads: the output must not contain them.
    force : bool
        Whether an existing run folder may be replaced.

    Returns
    -------
    tuple of str

    Raises
    ------
    RefusedError
        If the folder exists (unless `force` and it is a run folder) or contains an input.
    ResourceError
        If its parent folder cannot be written.

    """
    return check_place(Path(folder), inputs, force, RUN)


def staged_run(folder: str | Path, force: bool = False) -> AbstractContextManager[Path]:
    """A new run folder, to be filled in a `with` block; it appears as a whole or not at all.

    Raises RefusedError if the folder exists, ResourceError if writing fails.
    """
    check_output(folder, force=force)
    return staged_folder(Path(folder), RUN, force)


def write_tables(identification: Identification, folder: Path, final: Path | None = None) -> None:
    """Write all files of a run except the report into an existing folder.

    Parameters
    ----------
    identification : Identification
        The result.
    folder : Path
        The folder to write into.
    final : Path, optional
        Its place after it is moved; None = it stays.

    """
    _write_json(folder / "run.json", run_to_dict(identification) | {"folders": folders_of(final or folder)})
    _write_json(folder / "model.json", model_to_dict(identification))
    write_links(identification, folder)
    write_parameters(identification, folder)
    write_residuals(identification, folder / "residuals.parquet")
    write_factors(identification, folder / "factors.parquet")


def _files_of_unlisted_run(folder: Path) -> list[str] | None:
    try:
        run = _read_json(folder / "run.json")
    except DynidError:
        return None
    if not isinstance(run.get("format"), int):
        return None
    names = [*_RUN_FILES]
    provenance = run.get("provenance")
    logs = provenance.get("logs") if isinstance(provenance, dict) else None
    if isinstance(logs, dict) and any(Path(log).resolve().parent == folder / "logs" for log in logs):
        # Only the demo stores its logs inside the run folder.
        names += _DEMO_FILES
    return names


RUN = FolderKind("run", _files_of_unlisted_run)


def load(folder: str | Path) -> Identification:
    """Read a run folder.

    A run folder cannot cause an import: only plug-ins that are installed or named by the user are used.

    Parameters
    ----------
    folder : str or Path
        Run folder.

    Returns
    -------
    Identification

    Raises
    ------
    InputError
        If it is not a run folder or is damaged, or if a plug-in that its model needs is missing.
    ResourceError
        If it cannot be read.

    """
    folder = Path(folder)
    recover(folder)
    place = Place(file=str(folder))
    edited = [name for name in edited_files(folder, RUN) if name != "report.html"]
    if edited:
        _edited.append(folder)
    run, model = to_present(_read_json(folder / "run.json"), _read_json(folder / "model.json"), place)
    _require_plugins(run, model, place)
    try:
        if paths := StoredPaths.of(run, folder):
            run, model = paths.in_run(run), paths.in_model(model)
        robot = robot_from_dict(model["robot"])
        terms = terms_from_spec(model["terms"])
        columns = terms.columns(robot)
        scores = [scores_from_dict(entry) for entry in run["scores"]]
        residuals = read_residuals(folder / "residuals.parquet", robot, run["residuals"])
        validations = [Validation(s, residuals.get(i)) for i, s in enumerate(scores)]
        diagnostics = diagnostics_from_list(run["diagnostics"])
        for name in edited:
            diagnostics.warn(
                "edited-run",
                f"{name} was changed after dynid wrote it: the results shown may differ from those identified",
                Place(file=str(folder / name)),
            )
        return Identification(
            experiment=dict(run["experiment"]),
            files=dict(run["files"]),
            robot=robot,
            terms=terms,
            structural=base_from_dict(model["structural"], columns),
            estimate=estimate_from_dict(model["estimate"], columns),
            factors=read_factors(folder / "factors.parquet", len(columns)),
            training=validations[0],
            validations=tuple(validations[1:]),
            verdict=verdict_from_dict(run["verdict"]),
            diagnostics=diagnostics,
            preparation=run["preparation"],
            log_summary=run["log"],
            provenance=run["provenance"],
            truth=run["truth"],
            shapes=tuple(shape_from_dict(entry) for entry in model["shapes"]),
            choices=tuple(choice_from_dict(entry) for entry in run["choices"]),
            selection=selection_from_dict(run["selection"]),
            residual_findings=tuple(finding_from_dict(entry) for entry in run.get("residual_findings", [])),
            replayed=_read_replay(folder, run),
        )
    except (LookupError, TypeError, ValueError, AttributeError, OSError, DynidError) as error:
        raise InputError(
            "damaged-run",
            found=f"an incomplete or damaged run folder ({type(error).__name__}: {error})",
            expected=f"a complete run of format {FORMAT}",
            do="run dynid identify again",
            place=place,
        ) from error


def keep_replay(folder: str | Path, replay: Mapping[str, Any]) -> Identification:
    """Write the errors of a replayed log into replay.json of a run folder, and read the run with them.

    replay: plain data, see docs/run-folder.md.    Raises ResourceError if it cannot be written.
    """
    path = Path(folder) / REPLAY_FILE
    run = _read_json(path.parent / "run.json")
    with staged_files(path) as (scratch,):
        scratch.write_bytes(_json({"run": _stamp(run), **plain(replay)}))
    return load(folder)


def _read_replay(folder: Path, run: Mapping[str, Any]) -> Mapping[str, Any] | None:
    # A replay of an earlier run in this folder does not count.
    path = folder / REPLAY_FILE
    if not path.is_file():
        return None
    try:
        stored = _read_json(path)
    except DynidError:
        return None
    known = stored.get("run") == _stamp(run) and isinstance(stored.get("rows"), list)
    return {key: value for key, value in stored.items() if key != "run"} if known else None


def _stamp(run: Mapping[str, Any]) -> str:
    return str(run.get("provenance", {}).get("finished", ""))


def edited_runs() -> tuple[Path, ...]:
    """Run folders read by this process that were changed after dynid wrote them."""
    return tuple(_edited)


def migrated_files(folder: Path) -> dict[Path, bytes]:
    """Files of a run folder that change in the present format, with their new contents.

    Raises InputError if it is not a run folder, or is of a newer version.
    """
    run, model = _read_json(folder / "run.json"), _read_json(folder / "model.json")
    present = to_present(run, model, Place(file=str(folder)))
    old = (run, model)
    names = ("run.json", "model.json")
    return {
        folder / name: _json(new)
        for name, new, before in zip(names, present, old, strict=True)
        if new != before
    }


def _require_plugins(run: Mapping[str, Any], model: Mapping[str, Any], place: Place) -> None:
    try:
        needs = [Need(**entry) for entry in run["provenance"].get("plugins", ())]
        names = names_in_spec(model["terms"])
    except (LookupError, TypeError, AttributeError):
        return  # damaged: reported later
    known = {need.name: need for need in needs if need.kind == "term"}
    refuse_missing([known.get(name, Need("term", name)) for name in names], place)


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_bytes(_json(data))


def _json(data: Mapping[str, Any]) -> bytes:
    return (_lines(plain(data), 1) + "\n").encode()


def _lines(value: Any, depth: int) -> str:
    # One entry per line, but lists of numbers and names on one line, which json.dumps cannot do.
    inner, outer = "\n" + " " * depth, "\n" + " " * (depth - 1)
    if isinstance(value, dict) and value:
        entries = (f"{_flat(key)}: {_lines(item, depth + 1)}" for key, item in value.items())
        return "{" + inner + f",{inner}".join(entries) + outer + "}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[" + inner + f",{inner}".join(_lines(item, depth + 1) for item in value) + outer + "]"
    return _flat(value)


_flat = json.JSONEncoder(allow_nan=False).encode


def _read_json(path: Path) -> dict[str, Any]:
    place = Place(file=str(path))
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(
            "not-a-run", found="no such file", expected="a run folder of dynid identify", place=place
        ) from error
    except OSError as error:
        raise ResourceError(
            "file-unreadable", found=f"'{error.strerror or error}'", expected="a run folder", place=place
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            "not-a-run", found=f"damaged JSON ({error})", expected="a run folder", place=place
        ) from error
    if not isinstance(data, dict):
        raise InputError("not-a-run", found="JSON without keys", expected="a run folder", place=place)
    return data


# Paths in a run folder: stored as the command named them, found again from any working folder.

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
