"""Efforts beside a description of which one link is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.layouts import propose_logs
from tests.layouts.test_strangers import ARM, UR, csv, numbered

UNIT = "log.effort.unit"


@pytest.mark.parametrize("link", [2, 3])
@pytest.mark.parametrize("run", [ARM, UR])
def test_a_link_in_grams_is_left_out_where_efforts_are_compared_with_the_description(
    run: object, link: int, tmp_path: Path
) -> None:
    """It made 1e-7 of the torque, and a question for the unit."""
    one = ARM if run is ARM else UR
    prior = np.array(one.robot.inertia_prior)
    prior[link, :4] *= 1e3
    prior[link, 4:] *= 1e9
    names = {"t": one.t} | {f"q_{j}": one.q[:, k] for k, j in enumerate(one.robot.joint_names)}
    names |= {f"tau_{j}": one.tau[:, k] for k, j in enumerate(one.robot.joint_names)}
    path = csv(tmp_path / "log.csv", names)
    found = propose_logs(replace(one.robot, inertia_prior=prior), [path])
    assert not found.open
    assert found[UNIT].value == "N m"
    assert any(f"without link '{one.robot.body_names[link]}'" in why for why in found[UNIT].why)


def test_no_link_of_a_right_description_is_left_out(tmp_path: Path) -> None:
    columns = {"t": ARM.t} | numbered("q_#", ARM.q) | numbered("tau_#", ARM.tau)
    found = propose_logs(ARM.robot, [csv(tmp_path / "log.csv", columns)])
    assert found[UNIT].value == "N m"
    assert not any("without link" in why for why in found[UNIT].why)
