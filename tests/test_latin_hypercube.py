"""Points of a Latin hypercube: one in each slice, and those of SciPy."""

from __future__ import annotations

import numpy as np
from scipy.stats import qmc

from dynid.base import latin_hypercube


def test_every_slice_holds_one_point_and_the_generator_stays() -> None:
    rng = np.random.default_rng(3)
    points = latin_hypercube(20, 4, rng)
    np.testing.assert_array_equal(np.sort(np.floor(20 * points), axis=0), np.arange(20)[:, None] * np.ones(4))
    assert rng.random() == np.random.default_rng(3).random()


def test_the_points_are_those_of_scipy() -> None:
    mine = latin_hypercube(7, 5, np.random.default_rng(3))
    np.testing.assert_array_equal(mine, qmc.LatinHypercube(5, rng=np.random.default_rng(3)).random(7))
