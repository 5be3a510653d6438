"""The store of a fleet: one row per log in one Parquet file per robot; finished rows survive any end of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from dynid.base import InputError, Place, RefusedError, ResourceError, dataclass, staged_files, sweep
from dynid.fleet.plan import TypeModel, check_same
from dynid.fleet.task import DONE, LogRow

FORMAT = 1
MARK = "fleet.json"
# Batches that wait in files of their own before they are merged into the files of the robots.
_FOLD = 512


@dataclass(frozen=True)
class FleetStore:
    """The folder of a fleet: fleet.json, types/, factors/type=T/serial=S/factors.parquet, and tables/.

    Each finished batch of rows is written to a file in incoming/. From time to time these rows are merged, sorted,
    into the files of their robots, so that the final bytes depend on the logs alone.
    """

    folder: Path

    @staticmethod
    def open(folder: str | Path, models: Mapping[str, TypeModel] | None = None) -> FleetStore:
        """Open a store, or create it if models are given.

        Parameters
        ----------
        folder : str or Path
            Folder of the store.
        models : mapping, optional
            Model of each type; without it the store must exist.

        Raises
        ------
        InputError
            If no models are given and the folder is not a store.
        RefusedError
            If the folder contains other files.
        UsageError
            If the model of a type differs from the stored one.

        """
        store = FleetStore(Path(folder))
        known = store._exists()
        if not known and models is None:
            raise InputError(
                "not-a-fleet",
                found=f"no {MARK}",
                expected="a folder that `dynid fleet` wrote",
                place=Place(file=str(folder)),
            )
        if not known and store.folder.exists() and any(store.folder.iterdir()):
            raise RefusedError(
                "output-exists",
                found=f"output folder '{folder}' with other files",
                expected="a new folder, or the folder of an earlier `dynid fleet`",
                do="choose another folder with --out",
            )
        for name, model in (models or {}).items():
            path = store._type_file(name)
            if path.is_file():
                check_same(store.model(name), model, store.folder)
        if models is not None:
            store._write_types(models)
        return store

    def _exists(self) -> bool:
        try:
            data = json.loads((self.folder / MARK).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            raise InputError(
                "damaged-fleet",
                found=f"{MARK} that cannot be read ({error})",
                expected="the file that `dynid fleet` wrote",
                place=Place(file=str(self.folder)),
            ) from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError(
                "fleet-format",
                found="a fleet folder of another format",
                expected=f"format {FORMAT}",
                place=Place(file=str(self.folder / MARK)),
            )
        return True

    def _write_types(self, models: Mapping[str, TypeModel]) -> None:
        for name, model in models.items():
            path = self._type_file(name)
            if not path.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                _write_text(path, model.text())
        if not (self.folder / MARK).is_file():
            _write_text(self.folder / MARK, json.dumps({"format": FORMAT}) + "\n")

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the types, sorted."""
        return tuple(sorted(self.model_of(path).name for path in (self.folder / "types").glob("*.json")))

    def model(self, name: str) -> TypeModel:
        """Return the model of a type; raises InputError if it is missing or damaged."""
        return self.model_of(self._type_file(name))

    @staticmethod
    def model_of(path: Path) -> TypeModel:
        """Read the model of a type from its file."""
        try:
            return TypeModel.of_text(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                "damaged-fleet",
                found=f"an unreadable model of a robot type ({error})",
                expected="the file that `dynid fleet` wrote",
                place=Place(file=str(path)),
            ) from error

    def finished(self, failed: bool = True) -> set[str]:
        """Return the keys of processed logs; with `failed`, also of logs that failed through an error in the log."""
        keys = set()
        for path in self._files():
            columns = _read(path, ["key", "status", "again"])
            keys |= {
                key
                for key, status, again in zip(*columns.values(), strict=True)
                if status == DONE or (failed and not again)
            }
        return keys

    def commit(self, rows: Sequence[LogRow]) -> None:
        """Add rows, all or none of them; raises ResourceError if they cannot be written."""
        if not rows:
            return
        folder = self.folder / "incoming"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            number = 1 + max((int(p.stem) for p in folder.glob("*.parquet") if p.stem.isdigit()), default=0)
        except OSError as error:
            raise _cannot_write(folder, error) from error
        _write(folder / f"{number:08d}.parquet", [_plain(row) for row in rows])
        if number >= _FOLD:
            self.fold()

    def fold(self) -> None:
        """Merge new rows into the files of the robots, in order; a newer row replaces an older one of the same log."""
        folder = self.folder / "incoming"
        arrived = sorted(folder.glob("*.parquet"))
        rows: dict[Path, list[dict[str, Any]]] = {}
        for path in arrived:
            for row in _rows(path):
                rows.setdefault(self._robot_file(row["type"], row["serial"]), []).append(row)
        for path, new in sorted(rows.items()):
            old = _rows(path) if path.is_file() else []
            # A log that was tried again replaces its earlier row.
            by_key = {row["key"]: row for row in (*old, *new)}
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _cannot_write(path, error) from error
            _write(path, sorted(by_key.values(), key=_order))
        sweep(folder)  # remains of killed runs; this process is the only one that uses the folder
        for path in arrived:
            with suppress(OSError):
                path.unlink()
        with suppress(OSError):
            folder.rmdir()

    def failures(self) -> list[tuple[str, int, str]]:
        """Return (code, number of failed logs, first message) for each error code, the most frequent first."""
        messages: dict[str, list[str]] = {}
        for path in self._files():
            columns = _read(path, ["code", "message", "status"])
            for code, message, status in zip(*columns.values(), strict=True):
                if status != DONE:
                    messages.setdefault(code, []).append(message)
        return sorted(
            ((c, len(m), m[0]) for c, m in messages.items()), key=lambda failure: (-failure[1], failure[0])
        )

    def serials(self, name: str) -> list[str]:
        """Serial numbers of the robots of a type, sorted."""
        folders = (self.folder / "factors" / _part("type", name)).glob("*/factors.parquet")
        return sorted(unquote(path.parent.name.removeprefix("serial=")) for path in folders)

    def robot(self, name: str, serial: str) -> list[dict[str, Any]]:
        """Return the rows of a robot, in order."""
        return _rows(self._robot_file(name, serial))

    def rows(self, name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Yield serial number and rows of every robot of a type, in order."""
        for serial in self.serials(name):
            yield serial, self.robot(name, serial)

    def _files(self) -> list[Path]:
        return [
            *sorted((self.folder / "factors").glob("*/*/factors.parquet")),
            *sorted((self.folder / "incoming").glob("*.parquet")),
        ]

    def _type_file(self, name: str) -> Path:
        return self.folder / "types" / f"{_part('type', name)}.json"

    def _robot_file(self, name: str, serial: str) -> Path:
        return self.folder / "factors" / _part("type", name) / _part("serial", serial) / "factors.parquet"


def _part(key: str, value: str) -> str:
    # Hive's names of partitions; quoting keeps any name inside the folder.
    return f"{key}={quote(value, safe=' ')}"


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["time"], row["path"], row["trajectory"]


def _plain(row: LogRow) -> dict[str, Any]:
    log = row.log
    return {
        "key": log.key,
        "type": log.type,
        "serial": log.serial,
        "time": log.time,
        "path": log.path,
        "trajectory": log.trajectory,
        "status": row.status,
        "code": row.code,
        "message": row.message,
        "again": row.again,
        "model": row.model,
        "seconds": row.seconds,
        "sha256": row.sha256,
        "warnings": list(row.warnings),
        "count": list(row.count),
        "sigma": list(row.sigma),
        "design": list(row.design),
        "relative": list(row.relative),
        "R": np.asarray(row.R, dtype=np.float32),
    }


def is_done(row: Mapping[str, Any]) -> bool:
    """Whether a row has a factor."""
    return bool(row["status"] == DONE)


def _schema() -> Any:
    import pyarrow as pa

    text = {name: pa.string() for name in ("key", "type", "serial")}
    more = {name: pa.string() for name in ("path", "trajectory", "status", "code", "message")}
    numbers = {name: pa.list_(pa.float64()) for name in ("sigma", "design", "relative")}
    return pa.schema(
        text
        | {"time": pa.timestamp("us", tz="UTC")}
        | more
        | {"again": pa.bool_(), "model": pa.string(), "seconds": pa.float64(), "sha256": pa.string()}
        | {"warnings": pa.list_(pa.string()), "count": pa.list_(pa.int64())}
        | numbers
        | {"R": pa.list_(pa.float32())}
    )


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema()
    table = pa.table({name: [row[name] for row in rows] for name in schema.names}, schema=schema)
    factors = "R.list.element"
    with staged_files(path) as (scratch,):
        # Bytes of equal significance side by side: exponents are similar, so that files are half as large.
        pq.write_table(
            table,
            scratch,
            compression="zstd",
            use_dictionary=["type", "serial", "status", "code", "model"],
            column_encoding={factors: "BYTE_STREAM_SPLIT"},
            write_statistics=["key", "time"],
        )


def _rows(path: Path) -> list[dict[str, Any]]:
    columns = _read(path, None)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _read(path: Path, names: list[str] | None) -> dict[str, list[Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read(names)
        values_by_name = {
            name: column.to_pylist()
            for name, column in zip(table.column_names, table.columns, strict=True)
            if name != "R"
        }
        if "R" in table.column_names:
            column = table.column("R").combine_chunks()
            values, ends = column.values.to_numpy(), column.offsets.to_numpy()
            values_by_name["R"] = [values[a:b] for a, b in pairwise(ends)]
    except (OSError, pa.ArrowException, KeyError) as error:
        raise InputError(
            "damaged-fleet",
            found=f"a table that cannot be read ({error})",
            expected="a file that `dynid fleet` wrote",
            do="delete this file and run `dynid fleet` again, which reads its logs again",
            place=Place(file=str(path)),
        ) from error
    return values_by_name


def _write_text(path: Path, text: str) -> None:
    try:
        with staged_files(path) as (scratch,):
            scratch.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> ResourceError:
    return ResourceError(
        "cannot-write",
        found=f"'{error.strerror or error}' for '{path}'",
        expected="a writable folder for --out",
    )
