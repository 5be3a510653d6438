from __future__ import annotations

from pathlib import Path

import pytest

from tests.feasible.panda import Panda


@pytest.fixture(scope="session")
def panda(data_dir: Path) -> Panda:
    return Panda(data_dir)
