"""Where the robots of example-robot-data lie; tests that need one are skipped without the package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest


def shipped(name: str) -> Path:
    """Path of a robot's file."""
    try:
        files = distribution("example-robot-data").files or []
    except PackageNotFoundError:
        pytest.skip("example-robot-data is not installed")
    found = next((file for file in files if str(file).endswith(f"robots/{name}")), None)
    if found is None:
        pytest.skip(f"no {name} in this version of example-robot-data")
    return Path(str(found.locate()))
