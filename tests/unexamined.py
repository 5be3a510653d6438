"""Identifications of whose result the estimate and its scores alone are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def not_examined() -> Iterator[None]:
    """Identifies without looking for what residuals say of inputs and causes: two fifths of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dynid.identification.pipeline.examine", lambda *anything: tuple)
        yield


@pytest.fixture(scope="module")
def unexamined() -> Iterator[None]:
    """Of a module whose tests ask for no doubt and no finding about residuals."""
    with not_examined():
        yield
