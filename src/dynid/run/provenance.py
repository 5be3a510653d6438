"""Where a result comes from: versions, hashes, seeds, machine-independent facts."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from dynid.base.registry import Need
from dynid.base.version import __version__
from dynid.kernel import backend
from dynid.log.read import Log

_PACKAGES = ("numpy", "scipy", "pyarrow")


def provenance(
    log: Log, validation: Log | None, seed: int, seconds: float, needs: Sequence[Need] = ()
) -> dict[str, object]:
    """Plain data: dynid and package versions, kernel, SHA-256 of every file read, seed, date, duration.

    needs: kinds of plug-ins that the settings took; readers are found from the logs.
    """
    tables = [table for one in (log, validation) if one is not None for table in one.tables]
    readers = [Need.of("reader", table.path.suffix[1:].lower(), type(table)) for table in tables]
    plugins = dict.fromkeys([*needs, *(one for one in readers if one is not None)])
    return {
        "dynid": __version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "plugins": [asdict(need) for need in plugins],
        "kernel": backend(),
        "architecture": platform.machine(),
        "seed": seed,
        "logs": dict(log.sha256),
        "training_data": log.identity(),
        "validation_logs": dict(validation.sha256) if validation is not None else {},
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
