"""Where a result comes from: versions, hashes, seeds, machine-independent facts."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from dynid.base.version import __version__
from dynid.kernel import backend
from dynid.log.read import Log

_PACKAGES = ("numpy", "scipy", "pyarrow")


def provenance(log: Log, validation: Log | None, seed: int, seconds: float) -> dict[str, object]:
    """Plain data: dynid and package versions, kernel, SHA-256 of every file read, seed, date, duration."""
    return {
        "dynid": __version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
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
