"""Sigmoid friction of the Panda with its published coefficients (Gaz et al. 2019, eq. 25)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dynid.robot import load_robot
from dynid.signals import Samples
from dynid.terms import Sigmoid, torque_of
from tests.feasible.panda import ROBOT


def test_zero_at_rest_and_published_plateaus(data_dir: Path) -> None:
    table = json.loads((data_dir / "panda_gaz" / "reference.json").read_text())["friction_sigmoid"]
    phi1, phi2, phi3 = (np.array(table[name]) for name in ("phi1", "phi2", "phi3"))
    robot = load_robot(ROBOT)
    term = Sigmoid(tuple(phi2.tolist()), tuple(phi3.tolist()))
    dq = np.outer([0.0, 100.0, -100.0], np.ones(7))
    nothing = np.zeros_like(dq)
    rest, up, down = torque_of(term, robot, Samples.from_motion(nothing, dq, nothing, nothing), phi1)
    np.testing.assert_array_equal(rest, 0.0)
    np.testing.assert_allclose(up, [0.2455, 0.3852, 0.3938, 0.5752, 0.3738, 0.1785, 0.2773], atol=1e-4)
    np.testing.assert_allclose(-down, [0.3006, 0.4871, 0.2469, 0.7042, 0.4653, 0.1245, 0.2876], atol=1e-4)
