"""The demo's run, made once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.baseline import rows


@pytest.fixture(scope="session")
def baseline_demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """`dynid demo --fast` as data, and its run folder."""
    folder = tmp_path_factory.mktemp("baseline")
    return rows.demo("demo --fast", folder), folder / "run"
