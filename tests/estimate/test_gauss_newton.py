"""Steps that a search for the least output error tries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynid.base import Float, SolverError
from dynid.estimate import output_error as gauss_newton


@pytest.mark.parametrize(("longest", "tried"), [(0.9, 1), (1.5, 1), (5.0, 3), (1e3, gauss_newton.HALVINGS)])
@pytest.mark.parametrize("fails", [False, True])
def test_no_step_is_tried_that_is_shorter_than_the_tolerance(
    longest: float, tried: int, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: list[float] = []

    def higher(regression: Any, problem: Any, value: Float) -> SimpleNamespace:
        values.append(float(value[0]))
        if fails:
            raise SolverError("diverged", found="no motion", expected="one")
        return SimpleNamespace(cost=lambda weights: 2.0)

    monkeypatch.setattr(gauss_newton._Linear, "at", staticmethod(higher))
    here: Any = SimpleNamespace(value=np.zeros(1), weights=np.ones(1), cost=lambda weights: 1.0)
    nothing: Any = None
    found = gauss_newton._line_search(nothing, nothing, here, np.ones(1), longest)
    assert values == [0.5**k for k in range(tried)]
    assert bool(found) is fails
