"""The choice of a model does not depend on whether a log fits in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.choose import fit_nonlinear
from dynid.run import validation
from dynid.run.result import Identification
from dynid.signals import windows
from tests.selection.logs import chosen, options

CHOSEN = {"friction": "viscous + coulomb", "rotors": "rotors", "offsets": "offsets"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    return chosen(tmp_path_factory.mktemp("whole"), lambda tau: tau)


@pytest.mark.parametrize(("trial", "lines"), [(1e12, 3e5), (1e6, 3e5)], ids=["equations", "samples too"])
def test_a_long_log_chooses_what_a_short_one_does(
    whole: Identification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trial: float, lines: float
) -> None:
    """Hours of a log in miniature: windows shorter than its blocks, and room for a part of it alone."""
    monkeypatch.setattr(windows, "WINDOW_SECONDS", 0.3)
    monkeypatch.setattr(validation, "CACHE_BYTES", 0.0)
    monkeypatch.setattr(validation, "TRIAL_BYTES", trial)
    monkeypatch.setattr(fit_nonlinear, "LINE_BYTES", lines)
    part = chosen(tmp_path, lambda tau: tau)
    assert whole.selection is not None
    assert part.selection is not None
    assert part.selection.folds == whole.selection.folds == 5
    assert options(part) == options(whole) == CHOSEN
    assert part.terms == whole.terms
    assert part.selection.chosen.relative == pytest.approx(whole.selection.chosen.relative, rel=0.2)
    np.testing.assert_allclose(part.estimate.value, whole.estimate.value, rtol=1e-6)
    assert part.verdict.level == whole.verdict.level == "good"
