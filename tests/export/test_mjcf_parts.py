"""An MJCF whose moving body carries a part that is heavier than the body that was found."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.exporters.export import export_parameters
from dynid.robot import load_robot
from dynid.terms import RigidBody
from dynid.terms.term import Terms

ROBOT = """
<mujoco><worldbody><body name="calf"><inertial pos="0 0 -0.1" mass="0.3" diaginertia="0.002 0.002 0.0002"/>
<joint name="knee" axis="0 1 0"/><body name="foot" pos="0 0 -0.25"><geom size="0.0265"/></body></body></worldbody>
</mujoco>
"""


def test_a_body_lighter_than_its_part_goes_to_a_new_file(tmp_path: Path) -> None:
    source = tmp_path / "leg.xml"
    source.write_text(ROBOT)
    robot, sink = load_robot(source), Diagnostics()
    lighter = 0.35 * robot.inertia_prior.ravel()  # less inertia than its foot alone has about the knee
    (written,) = export_parameters(
        robot, Terms((RigidBody(),)), lighter, tmp_path / "new.xml", diagnostics=sink
    )
    assert np.allclose(load_robot(written).inertia_prior.ravel(), lighter, rtol=1e-9)
    (warning,) = [one for one in sink if one.identifier == "mjcf-new"]
    assert "the bodies fixed to it have kept theirs" in warning.text
