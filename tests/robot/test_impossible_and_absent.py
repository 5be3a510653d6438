"""Inertias that no body has, as priors; and bodies without mass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float, InputErrors, UsageError
from dynid.estimate import FeasibleFit, regression_of
from dynid.factor import Assembly, Blocking, Category, structural_base
from dynid.feasible import THINNEST, body_columns, plausible
from dynid.robot import RobotModel, load_robot
from dynid.rows import TorqueRows
from dynid.signals import ParallelFilter, Samples
from dynid.spatial import from_com, is_physical, nearest_possible, to_com
from dynid.terms import Offset, RigidBody, Viscous

HEAD = """<robot name="r"><link name="base"/>
<joint name="j1" type="continuous"><parent link="base"/><child link="l1"/><axis xyz="0 0 1"/></joint>
<link name="l1"><inertial><origin xyz="{xyz}"/><mass value="4"/>
<inertia ixx="{xx}" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""


def read(tmp_path: Path, xx: float, xyz: str) -> tuple[RobotModel, Diagnostics]:
    path, said = tmp_path / "r.urdf", Diagnostics()
    path.write_text(HEAD.format(xx=xx, xyz=xyz))
    return load_robot(path, diagnostics=said), said


def moments_about_centre(pi: Float) -> Float:
    inertia = to_com(pi)[2]
    return np.asarray(0.5 * np.trace(inertia) * np.eye(3) - inertia)


def second_moments(pi: Float) -> Float:
    return np.asarray(np.linalg.eigvalsh(moments_about_centre(pi)))


def test_a_slightly_impossible_inertia_is_the_nearest_possible_prior(tmp_path: Path) -> None:
    # About the centre it is negative by 11 % of the greatest moment; about the joint, 9 cm away, it is not at all.
    robot, said = read(tmp_path, -0.0022, "0 0.03 0.09")
    (warning,) = said.warnings
    assert warning.identifier == "inertia-not-psd"
    assert "nearest physically consistent inertia" in warning.text
    described = robot.inertia_prior[0]
    assert described[4] == pytest.approx(-0.0022 + 4 * (0.03**2 + 0.09**2))
    columns = RigidBody().columns(robot)
    prior = plausible(columns, described, np.ones(10))
    assert is_physical(prior)
    np.testing.assert_allclose(prior[:4], described[:4])
    inertia = to_com(prior[body_columns(columns)[0]])[2]
    moments = np.linalg.eigvalsh(0.5 * np.trace(inertia) * np.eye(3) - inertia)
    assert moments[0] / moments[-1] == pytest.approx(THINNEST)
    # No possible second moments about this centre are nearer.
    rng, J = np.random.default_rng(0), moments_about_centre(described)
    nearest = moments_about_centre(nearest_possible(described, 0.0))
    least = float(np.linalg.norm(nearest - J))
    for size in np.geomspace(1e-5, 1e-2, 200):
        A = size * rng.normal(size=(3, 3))
        values, axes = np.linalg.eigh(nearest + A + A.T)
        assert np.linalg.norm((axes * np.maximum(values, 0.0)) @ axes.T - J) >= least - 1e-12


def test_an_inertia_that_is_negative_about_the_joint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="-10 % of the greatest") as stopped:
        read(tmp_path, -0.01, "0 0 0")
    assert stopped.value.exit_code == 3


def test_bodies_that_exist_stay_bit_for_bit() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        A = rng.normal(size=(3, 8))
        J = A @ A.T
        pi = from_com(2.0, rng.normal(size=3), np.trace(J) * np.eye(3) - J)
        if second_moments(pi)[0] > 0.01 * second_moments(pi)[-1]:
            assert (nearest_possible(pi, 0.01) == pi).all()
    with pytest.raises(UsageError):
        nearest_possible(from_com(1.0, np.zeros(3), np.zeros((3, 3))), 0.01)


CARDAN = """convention = "placements"
[[joint]]
name = "a"
axis = [0.0, 0.0, 1.0]
inertial = {{ mass = 2.0, com = [0.1, 0.0, 0.0], inertia = {{ xx = 0.01, yy = 0.02, zz = 0.02 }} }}
[[joint]]
name = "b"
xyz = [0.3, 0.0, 0.0]
axis = [0.0, 1.0, 0.0]
{own}
[[joint]]
name = "c"
axis = [1.0, 0.0, 0.0]
inertial = {{ mass = 1.0, com = [0.0, 0.0, 0.1], inertia = {{ xx = 0.01, yy = 0.02, zz = 0.02 }} }}
"""


def cardan(tmp_path: Path, own: str) -> RobotModel:
    path = tmp_path / "robot.toml"
    path.write_text(CARDAN.format(own=own))
    return load_robot(path)


def test_a_body_without_mass_has_nothing_to_be_found(tmp_path: Path) -> None:
    robot = cardan(tmp_path, 'inertia = "none"')
    terms = RigidBody() + Viscous() + Offset()
    structural = structural_base(robot, terms, TorqueRows())
    names = [column.name for column in terms.columns(robot)]
    absent = [names.index(f"{symbol}2") for symbol in ("m", "mcx", "mcy", "mcz", "Ixx", "Iyy", "Izz")]
    assert not structural.B[:, absent].any()
    assert {structural.categories()[j] for j in absent} == {Category.NOT_IDENTIFIABLE}
    assert len(body_columns(terms.columns(robot))) == 2

    rng, t = np.random.default_rng(0), np.arange(2000) / 100.0
    rate = rng.uniform(1, 3, (3, 2))
    angle = t[:, None, None] * rate
    q, dq, ddq = np.sin(angle).sum(-1), (rate * np.cos(angle)).sum(-1), -(rate**2 * np.sin(angle)).sum(-1)
    theta = np.concatenate([robot.inertia_prior.ravel(), np.full(6, 0.5)])
    tau = terms.torque(robot, Samples.from_motion(q, dq, ddq, rate=100.0), theta)
    tau = tau + 0.01 * rng.normal(size=tau.shape)
    parallel = ParallelFilter(100.0, 10.0, decimation=2)
    assembly = Assembly(robot, terms, TorqueRows(), structural.mask, parallel, Blocking(1.0))
    factors = assembly.factors([Samples.from_motion(q, dq, ddq, tau, rate=100.0)])
    regression = regression_of(robot, terms, structural, factors)
    for estimator in (FeasibleFit(), FeasibleFit(strength=4.0)):
        found = estimator.fit(regression)
        assert not found.parameters[10:20].any()
        np.testing.assert_allclose(found.parameters[[0, 20]], [2.0, 1.0], rtol=0.1)


def test_no_mass_and_an_inertial_contradict_each_other(tmp_path: Path) -> None:
    own = 'inertia = "none"\ninertial = { mass = 1.0, com = [0, 0, 0], inertia = { xx = 0.1, yy = 0.1, zz = 0.1 } }'
    with pytest.raises(InputErrors, match="inertia = 'none'"):
        cardan(tmp_path, own)
    assert np.isnan(cardan(tmp_path, "").inertia_prior[1]).all()


def test_a_link_of_a_urdf_is_declared_without_mass_beside_it(tmp_path: Path) -> None:
    (tmp_path / "r.urdf").write_text(
        HEAD.format(xx=0.02, xyz="0 0 0").replace(
            "</robot>",
            (
                '<joint name="j2" type="continuous"><parent link="l1"/><child link="l2"/><axis xyz="1 0 0"/></joint>'
                '<link name="l2"/></robot>'
            ),
        )
    )
    (tmp_path / "robot.toml").write_text('urdf = "r.urdf"\n[[joint]]\nname = "j2"\ninertia = "none"\n')
    assert np.isnan(load_robot(tmp_path / "r.urdf", diagnostics=Diagnostics()).inertia_prior[1]).all()
    assert not load_robot(tmp_path / "robot.toml", diagnostics=Diagnostics()).inertia_prior[1].any()


TURNING = '<joint name="j" type="revolute"><parent link="pole"/><child link="l"/><axis xyz="0 1 0"/></joint>'
GOOD = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
STANDING_URDF = (
    '<robot name="r"><link name="base">{0}</link><link name="pole">{0}</link><link name="l">'
    + GOOD
    + "</link>"
    '<joint name="f" type="fixed"><parent link="base"/><child link="pole"/></joint>' + TURNING + "</robot>"
)
STANDING_MJCF = (
    '<mujoco><worldbody><body name="pole">{0}{1}<body name="l"><joint name="j" axis="0 1 0"/><inertial pos="0 0 0" '
    'mass="1" diaginertia="1 1 1"/></body></body><body name="table">{0}</body></worldbody></mujoco>'
)


@pytest.mark.parametrize("moments", [(0.1, 0.1, -0.3), (0.1, 0.1, 0.3)], ids=["negative", "triangle"])
@pytest.mark.parametrize("form", ["urdf", "mjcf", "mjcf full", "mjcf free"])
def test_what_stands_still_needs_no_inertia_that_exists(
    tmp_path: Path, form: str, moments: tuple[float, ...]
) -> None:
    def loaded(xx: float, yy: float, zz: float) -> tuple[RobotModel, list[str]]:
        if form == "urdf":
            of = f'<inertial><mass value="1"/><inertia ixx="{xx}" iyy="{yy}" izz="{zz}"/></inertial>'
            text = STANDING_URDF.format(of)
        else:
            values = (
                f'fullinertia="{xx} {yy} {zz} 0 0 0"'
                if form == "mjcf full"
                else f'diaginertia="{xx} {yy} {zz}"'
            )
            free = "<freejoint/>" if form == "mjcf free" else ""
            text = STANDING_MJCF.format(f'<inertial pos="0 0 0.1" mass="1" {values}/>', free)
        path, said = tmp_path / ("r.urdf" if form == "urdf" else "r.xml"), Diagnostics()
        path.write_text(text)
        robot = load_robot(path, diagnostics=said)
        return robot, [one.identifier for one in said.warnings]

    (robot, said), (good, _) = loaded(*moments), loaded(1.0, 1.0, 1.0)
    assert not {"inertia-not-psd", "triangle-inequality"} & set(said)
    np.testing.assert_array_equal(robot.inertia_prior, good.inertia_prior)
