"""An MJCF whose moving body carries a part that is heavier than the body that was found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.exporters import export_parameters
from dynid.robot import load_robot
from dynid.terms import RigidBody, Terms

ROBOT = """
<mujoco><worldbody><body name="calf"><inertial pos="0 0 -0.1" mass="0.3" diaginertia="0.002 0.002 0.0002"/>
<joint name="knee" axis="0 1 0"/><body name="foot" pos="0 0 -0.25"><geom size="0.0265"/></body></body></worldbody>
</mujoco>
"""


@pytest.mark.parametrize(
    ("found", "said", "not_said"),
    [
        # Less mass than the foot alone has.
        (0.15, "did not carry all of them", "sum is as identified"),
        # Mass enough, less inertia than the foot alone has about the knee: of what was carried that says nothing.
        (0.35, "sum is as identified", "did not carry"),
    ],
)
def test_a_part_that_does_not_fit_is_written_with_a_share_of_itself(
    found: float, said: str, not_said: str, tmp_path: Path
) -> None:
    source = tmp_path / "leg.xml"
    source.write_text(ROBOT)
    robot, sink = load_robot(source), Diagnostics()
    lighter = found * robot.inertia_prior.ravel()
    (written,) = export_parameters(
        robot, Terms((RigidBody(),)), lighter, tmp_path / "new.xml", diagnostics=sink
    )
    assert np.allclose(load_robot(written).inertia_prior.ravel(), lighter, rtol=1e-9)
    (warning,) = [one for one in sink if one.identifier == "export-shared"]
    assert "links fixed to 'calf' (" in warning.text
    assert said in warning.text
    assert not_said not in warning.text
    assert "mjcf-new" not in {one.identifier for one in sink}
    assert "0.0265" in written.read_text()  # the file is still the user's own
