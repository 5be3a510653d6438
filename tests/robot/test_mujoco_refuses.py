"""Bodies that MuJoCo does not take end in one message."""

from __future__ import annotations

import pytest

from dynid.base import SolverError
from dynid.robot import compiled

MODEL = """<mujoco><worldbody><body><joint axis="0 0 1"/><inertial pos="0 0 0" mass="1" diaginertia="{}"/>
</body></worldbody></mujoco>"""


def test_an_inertia_that_no_body_has() -> None:
    assert compiled(MODEL.format("1 1 1")).nv == 1
    with pytest.raises(SolverError, match=r"mujoco-refuses.*physically consistent links"):
        compiled(MODEL.format("1 1 5"))
