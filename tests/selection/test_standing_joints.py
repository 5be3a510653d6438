"""What the automatic choice does not try on a joint that stands."""

from __future__ import annotations

from dynid.choose.wide_model import wide_model
from dynid.terms import JointMotion, LogFacts, RigidBody, Terms
from dynid.testing import small_arm


def test_no_delay_of_a_joint_that_stands() -> None:
    """Its torque is what friction leaves of its load; a torso's arm at rest came out ahead of the motion by 9 ms."""
    arm = small_arm()
    moves, stands = JointMotion(1.0, 0.3, 1.5), JointMotion(1e-3, 0.0, 1e-4)
    facts = LogFacts(inertia=(0.0,) * 10 * len(arm.body_names), drives=(), motion=(moves, stands, moves))
    wide = wide_model(arm, Terms((RigidBody(),)), facts)
    late = {place for effect, place in wide.members if effect.startswith("lag")}
    assert late == {0, 2}
