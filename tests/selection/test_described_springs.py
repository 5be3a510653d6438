"""Springs that the description says are in models that are chosen automatically."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import dynid
from dynid.base import Diagnostics
from dynid.robot import load_robot
from dynid.terms import LogFacts, RigidBody, TorsionSpring, Viscous, with_described
from tests.export.test_springs import OWN


def test_the_automatic_choice_keeps_described_springs(tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(OWN.format(turn=' stiffness="30" springref="-20"'))
    robot = load_robot(path, diagnostics=Diagnostics())
    plain = RigidBody() + Viscous()
    own = [(one.joints, one.label) for one in with_described(plain, robot) if isinstance(one, TorsionSpring)]
    assert own == [(("turn",), "joint1"), (("push",), "joint2"), (("bend",), "joint3")]
    named = plain + TorsionSpring(("push",), "mine")
    assert [one.label for one in with_described(named, robot) if isinstance(one, TorsionSpring)] == [
        "mine",
        "joint1",
        "joint3",
    ]
    (offered,) = TorsionSpring.selection.proposed(TorsionSpring, robot, LogFacts())
    assert offered.places == (3, 3)
    run = dynid.identify(robot, dynid.simulate(robot, seconds=10.0, seed=1))
    k = [
        value
        for c, value in zip(run.estimate.columns, run.estimate.parameters, strict=True)
        if c.name[:2] == "kt"
    ]
    np.testing.assert_allclose(k[:3], [30.0, 50.0, 4.0], rtol=0.02)
