"""Points that fill a cube evenly in each coordinate."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float


def latin_hypercube(count: int, size: int, rng: np.random.Generator) -> Float:
    """`count` points (count, size) in [0, 1), one in each of `count` equal slices of every coordinate.

    Drawn from a generator spawned of `rng`: what that draws itself stays the same.    They are SciPy's, which takes a
    second to load.    Source: McKay, Beckman and Conover 1979.
    """
    own = rng.spawn(1)[0]
    within = own.uniform(size=(count, size))
    slices = np.tile(np.arange(1, count + 1), (size, 1))
    for one in slices:
        own.shuffle(one)
    return np.asarray((slices.T - within) / count)
