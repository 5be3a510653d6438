"""Isaac Lab's configuration: executed against stand-ins of the published classes. It was not run in Isaac Lab."""

from __future__ import annotations

import sys
from dataclasses import MISSING, dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dynid.base import Float, UsageError
from dynid.exporters import ExportModel, export_parameters
from dynid.exporters.isaaclab import isaaclab_config
from dynid.robot import RobotModel, ServoSettings, load_example, load_robot
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous

TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb() + Offset()
KP, DELAY = 40.0, 0.012


@dataclass
class IdealPD:
    """Arguments of IdealPDActuatorCfg, Isaac Lab 3.0."""

    joint_names_expr: list[str]
    stiffness: float
    damping: float
    effort_limit: float | None = None
    velocity_limit: float | None = None
    armature: float | None = None
    friction: float | None = None
    dynamic_friction: float | None = None
    viscous_friction: float | None = None


@dataclass
class DelayedPD(IdealPD):
    """Arguments of DelayedPDActuatorCfg."""

    min_delay: int = 0
    max_delay: int = 0


@dataclass
class PDGains:
    stiffness: float
    damping: float


@dataclass
class JointDrive:
    gains: PDGains
    PDGainsCfg = PDGains


@dataclass
class UrdfFile:
    asset_path: str
    fix_base: Any = MISSING
    joint_drive: JointDrive | None = None


@dataclass
class Articulation:
    prim_path: str
    spawn: UrdfFile
    actuators: dict[str, IdealPD]


@dataclass
class Scene:
    name: str
    joint_names: str | list[str] | None = None
    body_names: str | list[str] | None = None


@dataclass
class Event:
    func: object
    mode: str
    params: dict[str, Any] = field(default_factory=dict)


@pytest.fixture
def isaaclab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules with the names that the file imports."""
    contents: dict[str, dict[str, object]] = {
        "isaaclab": {},
        "isaaclab.actuators": {"IdealPDActuatorCfg": IdealPD, "DelayedPDActuatorCfg": DelayedPD},
        "isaaclab.assets": {"ArticulationCfg": Articulation},
        "isaaclab.envs": {},
        "isaaclab.envs.mdp": {"randomize_joint_parameters": "joints", "randomize_rigid_body_mass": "mass"},
        "isaaclab.managers": {"EventTermCfg": Event, "SceneEntityCfg": Scene},
        "isaaclab.sim": {
            "UrdfFileCfg": UrdfFile,
            "UrdfConverterCfg": type("UrdfConverterCfg", (), {"JointDriveCfg": JointDrive}),
        },
    }
    for name, members in contents.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
        if "." in name:
            above, _, last = name.rpartition(".")
            setattr(sys.modules[above], last, module)


def executed(path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {"__file__": str(path)}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)  # noqa: S102 - the file under test
    return names


def parameters(robot: RobotModel) -> Float:
    """The robot file's links, and a number of its own for each other parameter."""
    columns = TERMS.columns(robot)
    return np.array(
        [c.prior if c.term == RigidBody().name else 0.1 + 0.01 * i for i, c in enumerate(columns)]
    )


@pytest.mark.usefixtures("isaaclab")
def test_a_servo_arm_has_its_controllers_friction_and_delay(tmp_path: Path) -> None:
    robot = load_example("arm7").with_servo(ServoSettings(kp=KP, kd=0.5, delay=DELAY, loop="drive"))
    theta = parameters(robot)
    files = export_parameters(robot, TERMS, theta, tmp_path / "arm.py")
    assert [path.name for path in files] == ["arm.py", "arm.urdf"]
    config = executed(files[0])
    model = ExportModel.of_terms(robot, TERMS, theta)
    actuators = config["ROBOT_CFG"].actuators
    assert list(actuators) == list(robot.joint_names)
    for j, actuator in enumerate(actuators.values()):
        assert (actuator.stiffness, actuator.damping) == (KP, 0.5)
        assert actuator.armature == model.rotor[j]
        assert actuator.friction == actuator.dynamic_friction == model.coulomb[j]
        assert actuator.viscous_friction == model.viscous[j]
        # 12 ms lie between 2 and 3 steps of 5 ms.
        assert (actuator.min_delay, actuator.max_delay) == (2, 3)
    again = load_robot(config["ROBOT_CFG"].spawn.asset_path)
    assert again.joint_names == robot.joint_names
    assert "constant torques" in files[0].read_text()


@pytest.mark.usefixtures("isaaclab")
def test_ranges_are_factors_of_the_ensemble(tmp_path: Path) -> None:
    robot = load_example("arm7")
    model = ExportModel.of_terms(robot, TERMS, parameters(robot))
    members = [
        replace(model, coulomb=s * model.coulomb, viscous=s * model.viscous, inertia=s * model.inertia)
        for s in np.linspace(0.8, 1.2, 401)
    ]
    path = tmp_path / "arm.py"
    path.write_bytes(isaaclab_config(model, "arm.urdf", [], members))
    config = executed(path)
    assert len(config["EVENTS"]) == 2 * robot.n
    for event in config["EVENTS"].values():
        key = "friction_distribution_params" if event.func == "joints" else "mass_distribution_params"
        assert event.params[key] == pytest.approx((0.81, 1.19), abs=1e-6)
        assert "armature_distribution_params" not in event.params
    # Without gains joints follow effort targets.
    assert {type(actuator) for actuator in config["ACTUATORS"].values()} == {IdealPD}
    assert {actuator.stiffness for actuator in config["ACTUATORS"].values()} == {0.0}


def test_an_unknown_format_is_answered_by_all_names(tmp_path: Path) -> None:
    robot = load_example("arm7")
    with pytest.raises(UsageError, match=r"isaaclab.*table.*\.tex"):
        export_parameters(robot, TERMS, np.zeros(0), tmp_path / "arm.xyz")
