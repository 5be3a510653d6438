"""Robots that stand another way than described, by pinocchio; wrong signs and rough masses are no other mount."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.log.prior_check import check_against_prior, states_of
from dynid.testing import Plant, Recorded, Unmodelled, plant, record
from dynid.testing.plants import REPORTED

pytest.importorskip("pinocchio")
MOUNTS = {"wall": (9.81, 0.0, 0.0), "ceiling": (0.0, 0.0, 9.81), "slope": (0.0, -6.9367, -6.9367)}
ROUGH = (0.7, 1.4)  # factors of masses
NEAR = 15.0  # degrees that such masses may turn the direction by

# The others run with the campaign.
FEW = [pytest.param(name, marks=[pytest.mark.slow] if name in ("ur3", "z1") else []) for name in REPORTED]


def recorded(name: str, seed: int, gravity: tuple[float, ...] | None) -> tuple[Plant, Recorded]:
    """A log of a robot as it is, and a description whose masses are off."""
    rng = np.random.default_rng([seed, list(REPORTED).index(name)])
    one, lacks = plant(name, rng), replace(Unmodelled.random(rng), lean=0.0)
    if gravity is not None:
        turned: Any = one.model.copy()
        turned.gravity.linear = np.array(gravity)
        one = replace(one, model=turned)
    log = record(one, rng, lacks, 12.0)
    rough = rng.uniform(*ROUGH, (one.described.n_bodies, 1)) * one.described.inertia_prior
    return replace(one, described=replace(one.described, inertia_prior=rough)), log


def claims(one: Plant, log: Recorded, sign: Float) -> list[tuple[str, str]]:
    """What is said of the log with efforts times a sign."""
    sink, every = Diagnostics(), max(1, round(0.02 * one.rate))
    t, q, tau = log.t[::every], log.q[::every], (sign * log.tau)[::every]
    check_against_prior(one.described, states_of(t, q, tau), sink)
    return [(item.identifier, item.text) for item in sink]


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_mount_is_found_and_a_wrong_sign_is_none(name: str, seed: int) -> None:
    one, log = recorded(name, seed, None)
    n = one.described.n
    assert claims(one, log, np.ones(n)) == []
    # Every effort with the wrong sign looks like gravity from above, but for inertia and friction.
    turned = claims(one, log, -np.ones(n))
    assert {code for code, _ in turned} <= {"torque-sign"}
    # It is said once, of all joints, where several show it: one alone would leave the others as they are.
    assert len(turned) == 1
    if name != "kinova":
        assert all(f"{joint} = -1" in turned[0][1] for joint in one.described.joint_names)
    for mount, gravity in MOUNTS.items():
        one, log = recorded(name, seed, gravity)
        (claim,) = claims(one, log, np.ones(n))
        assert claim[0] == "tilted-base", mount
        assert "--gravity=" in claim[1]
        found = np.array([float(g) for g in claim[1].split("--gravity=")[1].split(";")[0].split(",")])
        assert found @ np.array(gravity) / 9.81**2 > np.cos(np.deg2rad(NEAR)), mount


def test_a_small_robot_that_hangs_is_found_as_a_large_one_is() -> None:
    """Torque is linear in masses: a thousandth of both is the same robot to the checks."""
    one, log = recorded(next(iter(REPORTED)), 0, MOUNTS["ceiling"])
    small = replace(one, described=replace(one.described, inertia_prior=1e-3 * one.described.inertia_prior))
    (claim,) = claims(small, replace(log, tau=1e-3 * log.tau), np.ones(one.described.n))
    assert claim[0] == "tilted-base"
    assert claim[1].endswith("--gravity=0,0,9.81; or accept it: --accept tilted-base")


def test_a_cable_on_the_first_joint_hides_no_ceiling() -> None:
    """A torque over a vertical joint's position looks like gravity from aside, which falsifies the direction."""
    one, log = recorded(next(iter(REPORTED)), 0, MOUNTS["ceiling"])
    tau = log.tau.copy()
    tau[:, 0] += 30.0 * np.abs(tau).max() * np.sin(log.q[:, 0])
    (claim,) = claims(one, replace(log, tau=tau), np.ones(one.described.n))
    assert claim[0] == "tilted-base"
    assert claim[1].endswith("--gravity=0,0,9.81; or accept it: --accept tilted-base")


@pytest.mark.parametrize("name", FEW)
def test_joints_that_are_exchanged_are_no_other_mount(name: str) -> None:
    """Of two joints with all their columns exchanged; where an exchange is named it is that one."""
    one, log = recorded(name, 0, None)
    n = one.described.n
    for pair in combinations(range(n), 2):
        order = np.arange(n)
        order[list(pair)] = pair[::-1]
        wrong = replace(log, q=log.q[:, order], tau=log.tau[:, order])
        said = claims(one, wrong, np.ones(n))
        assert "tilted-base" not in {code for code, _ in said}, pair
        first, second = (f"'{one.described.joint_names[j]}'" for j in pair)
        for code, text in said:
            if code == "joint-order" and "swap" in text:
                assert f"columns of {first} and {second}" in text
