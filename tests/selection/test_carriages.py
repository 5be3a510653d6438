"""Drives of carriages: their rotors weigh like what they carry, and no motion tells one from the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import dynid
from dynid.run import total_source
from dynid.run.links import links

MASSES, ROTORS = (20.0, 6.0), (5.0, 4.0)
DESCRIBED = (17.0, 7.0)


def gantry(folder: Path) -> Path:
    """A carriage along x and a ram along z, with masses that are 15 % off."""
    parts = [
        f"""<link name="{name}_link"><inertial><mass value="{mass}"/>
        <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="{name}" type="prismatic"><parent link="{parent}"/><child link="{name}_link"/>
        <axis xyz="{axis}"/><limit lower="-1" upper="1" effort="500" velocity="2"/></joint>"""
        for name, mass, parent, axis in zip(
            "xz", DESCRIBED, ("base", "x_link"), ("1 0 0", "0 0 1"), strict=True
        )
    ]
    path = folder / "gantry.urdf"
    path.write_text(f'<robot name="gantry"><link name="base"/>{"".join(parts)}</robot>')
    return path


def test_no_mass_is_said_by_data_that_hold_it_together_with_a_rotor(tmp_path: Path) -> None:
    robot = dynid.load_robot(gantry(tmp_path))
    rng = np.random.default_rng(3)
    t = np.arange(0.0, 40.0, 0.01)
    waves = 2 * np.pi * 0.1 * np.arange(1, 6)[:, None] * t
    a, b = rng.normal(size=(2, 2, 5))
    q = 0.1 * (a @ np.sin(waves) + b @ np.cos(waves)).T
    dq, ddq = np.gradient(q, 0.01, axis=0), np.gradient(np.gradient(q, 0.01, axis=0), 0.01, axis=0)
    moved = np.array([sum(MASSES) + ROTORS[0], MASSES[1] + ROTORS[1]])
    force = ddq * moved + [0.0, 9.81 * MASSES[1]] + [12.0, 8.0] * np.tanh(dq / 0.01) + [30.0, 20.0] * dq
    # Zeros of the sensors, so that weight does not say a mass either.
    force += rng.normal(size=q.shape) + np.array([3.0, 6.0])
    result = dynid.identify(robot, dynid.Log.from_arrays(robot, t, q, force))
    found, total = links(result)
    assert "data" not in {total_source(found, total), *(link.source for link in found)}
    # What the drives move is right, however it is split.
    torque = result.predict(q, dq, ddq)
    assert np.linalg.norm(torque - force) < 0.06 * np.linalg.norm(force)
