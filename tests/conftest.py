"""Shared fixtures."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

# Before NumPy is loaded: several test processes with several threads each would fight for the processors.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import pytest

from tests.command_line import other_log, robot_file, run, train_log
from tests.kernels import kernel, native_kernel
from tests.unexamined import unexamined

__all__ = ["data_dir", "kernel", "native_kernel", "other_log", "robot_file", "run", "train_log", "unexamined"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects without looking for garbage: what is loaded then stays, and an eighth of the time went to seeing so."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with real robots' logs beside the checkout; tests that need it are skipped when it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("DYNID_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"real logs not found at {folder}; set DYNID_DATA to the folder that holds them")
    return folder
