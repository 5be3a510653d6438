"""Friction that was identified is dry: a joint of an exported file holds still below it and slides above it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.exporters import ExportModel, edit_mjcf, new_mjcf
from dynid.robot import Reading, load_robot

COULOMB = 0.3
SLIDER = """
<mujoco><compiler angle="radian"/><option gravity="0 0 0"/><worldbody><body name="disc">
<inertial pos="0 0 0" mass="1" diaginertia="0.004 0.004 0.004"/><joint name="pan" axis="0 0 1"{0}/>
</body></worldbody></mujoco>
"""


def model_of(path: Path, extra: str = "") -> ExportModel:
    path.write_text(SLIDER.format(extra))
    described = ExportModel.of_description(load_robot(path))
    return replace(described, coulomb=np.array([COULOMB]))


def speed_under(text: bytes, torque: float, seconds: float = 0.5) -> float:
    """Speed of the joint after a constant torque."""
    mujoco: Any = pytest.importorskip("mujoco")
    scene = mujoco.MjModel.from_xml_string(text.decode())
    scene.opt.timestep = 1e-3
    data = mujoco.MjData(scene)
    for _ in range(round(seconds / scene.opt.timestep)):
        data.qfrc_applied[:] = torque
        mujoco.mj_step(scene, data)
    return float(data.qvel[0])


@pytest.mark.parametrize("in_place", [False, True])
def test_exported_friction_is_dry(tmp_path: Path, in_place: bool) -> None:
    path = tmp_path / "slider.xml"
    model = model_of(path)
    text = edit_mjcf(model, path, Reading())[0] if in_place else new_mjcf(model)
    creep, soft = speed_under(text, 0.9 * COULOMB), speed_under(new_mjcf(model, soft=True), 0.9 * COULOMB)
    assert 0 <= creep < 0.05 * soft
    # Above it the joint is accelerated by what is left.
    assert speed_under(text, 1.5 * COULOMB) == pytest.approx(0.5 * COULOMB / 0.004 * 0.5, rel=0.01)


def test_friction_of_an_author_gives_way_as_he_chose(tmp_path: Path) -> None:
    path = tmp_path / "slider.xml"
    model = model_of(path, ' frictionloss="0.1" solreffriction="0.03 1"')
    text = edit_mjcf(model, path, Reading())[0].decode()
    assert 'frictionloss="0.3"' in text
    assert 'solreffriction="0.03 1"' in text
    assert "solimpfriction" not in text


def test_a_file_whose_friction_is_the_models_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "slider.xml"
    model = model_of(path, f' frictionloss="{COULOMB}"')
    assert b"friction=" not in edit_mjcf(model, path, Reading())[0]
