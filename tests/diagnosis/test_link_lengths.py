"""Links of another length than described: reported where the log shows them, else said to be out of sight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynid.base import Diagnostics
from dynid.diagnosis import ResidualAnalysis, check_link_lengths
from dynid.diagnosis.input_checks import find_link_lengths
from dynid.robot import RobotModel
from dynid.testing import analysis_of, small_arm

ARM = small_arm()


def stretched(joint: int, share: float) -> RobotModel:
    """The small arm with the distance of a joint from the one before it changed by a share."""
    T = ARM.T_parent_joint.copy()
    T[joint, :3, 3] *= 1.0 + share
    return replace(ARM, T_parent_joint=T)


def reported(analysis: ResidualAnalysis) -> list[tuple[str, str]]:
    sink = Diagnostics()
    check_link_lengths(analysis, sink)
    return [(one.identifier, one.text) for one in sink]


@pytest.mark.parametrize("share", [0.1, -0.1])
def test_a_link_that_couples_two_joints_is_told_by_its_length(share: float) -> None:
    """The elbow's lever for the shoulder: gravity of the forearm fixes its first moment, their coupling the lever."""
    analysis = analysis_of(ARM, seed=0, noise=0.002, truth=stretched(2, share))
    (elbow,) = [one for one in find_link_lengths(analysis) if one.joint == 2]
    assert elbow.change == pytest.approx(share, abs=3.0 * elbow.std + 0.1 * abs(share))
    (code, text), *_ = reported(analysis)
    assert code == "link-length"
    assert "'elbow'" in text
    assert ("longer" if share > 0 else "shorter") in text


def test_a_link_as_described_is_left_in_peace() -> None:
    for seed in range(3):
        assert "link-length" not in dict(reported(analysis_of(ARM, seed=seed)))


def test_a_link_that_other_parameters_take_up_is_said_to_be_out_of_sight() -> None:
    """The shoulder lies on the column's axis: the distance along it moves nothing."""
    analysis = analysis_of(ARM, seed=0, noise=0.002, truth=stretched(1, 0.05))
    (note,) = reported(analysis)
    assert note[0] == "link-length-unseen"
    assert "cannot show an error of 5 % before shoulder" in note[1]
    # Nor is a link passed over in silence that is too little off to be proven.
    codes = dict(reported(analysis_of(ARM, seed=0, noise=0.002, truth=stretched(2, 0.05))))
    assert "link-length" in codes or "elbow" in codes["link-length-unseen"]
    noisy = reported(analysis_of(ARM, seed=0, noise=0.3))
    assert "shoulder, elbow" in dict(noisy)["link-length-unseen"]
