"""Stand-ins of packages that are not on PyPI: their published signatures around two pendulums that do not touch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import yaml

from dynid.base import Float

KNOWN = 2.0 * 9.81 * 0.3  # N m, the weight of each pendulum, which robot_payload_id returns as w0


def regressor(q: Float, dq: Float, ddq: Float, weight: bool) -> Float:
    """Rows sample by sample (T n, k n): inertia, viscous and dry friction of each joint, and its weight."""
    kinds = [ddq, dq, np.tanh(dq / 0.02), *([np.sin(q)] if weight else [])]
    n = q.shape[1]
    rows = np.zeros((len(q), n, n, len(kinds)))
    for j in range(n):
        rows[:, j, j] = np.stack([kind[:, j] for kind in kinds], axis=1)
    return rows.reshape(len(q) * n, -1)


def module(name: str, **names: Any) -> tuple[str, ModuleType]:
    made = ModuleType(name)
    vars(made).update(names)
    return name, made


# robot_payload_id


@dataclass
class JointData:
    joint_positions: Float
    joint_velocities: Float
    joint_accelerations: Float
    joint_torques: Float
    sample_times_s: Float


@dataclass
class ArmPlantComponents:
    plant: Any
    plant_context: Any = None
    parameters: Any = None
    state_variables: Any = None


def extract_numeric_data_matrix_autodiff(
    plant_components: ArmPlantComponents,
    joint_data: JointData,
    add_rotor_inertia: bool,
    add_reflected_inertia: bool,
    add_viscous_friction: bool,
    add_dynamic_dry_friction: bool,
    payload_only: bool = False,
    use_progress_bar: bool = True,
) -> tuple[Float, Float, Float]:
    assert plant_components.plant_context == "context"
    assert not (add_rotor_inertia and add_reflected_inertia)
    q = joint_data.joint_positions
    W = regressor(q, joint_data.joint_velocities, joint_data.joint_accelerations, weight=False)
    w0 = KNOWN * np.sin(q).ravel()
    return W, w0, w0 + W.sum(axis=1)


def compute_base_param_mapping(
    W_data: Float, scale_by_singular_values: bool = False, tol: float = 1e-6
) -> Float:
    return np.eye(W_data.shape[1])[:, ::-1]


def create_arm(arm_file_path: str, num_joints: int, time_step: float = 0.0) -> Any:
    root = ElementTree.parse(arm_file_path).getroot()  # noqa: S314 - written by the adapter
    assert len(list(root.iter("actuator"))) == num_joints
    assert "world" in [link.get("name") for link in root.iter("link")]
    return SimpleNamespace(plant=SimpleNamespace(CreateDefaultContext=lambda: "context"), diagram=None)


def get_plant_joint_params(
    plant: Any,
    context: Any,
    add_rotor_inertia: bool,
    add_reflected_inertia: bool,
    add_viscous_friction: bool,
    add_dynamic_dry_friction: bool,
    payload_only: bool,
) -> list[Any]:
    return []


def solve_inertial_param_sdp(
    num_links: int,
    W_data: Float,
    tau_data: Float,
    base_param_mapping: Float | None = None,
    regularization_weight: float = 0.0,
    params_guess: list[Any] | None = None,
    use_euclidean_regularization: bool = False,
    identify_rotor_inertia: bool = False,
    identify_reflected_inertia: bool = True,
    identify_viscous_friction: bool = True,
    identify_dynamic_dry_friction: bool = True,
    payload_only: bool = False,
    solver_kPrintToConsole: bool = False,
) -> tuple[Any, Any, Any, Any, Any]:
    assert regularization_weight == 0.0 or params_guess is not None
    assert base_param_mapping is not None
    theta = base_param_mapping @ np.linalg.lstsq(W_data, tau_data, rcond=None)[0]
    result = SimpleNamespace(is_success=lambda: True, GetSolution=lambda variables: theta)
    return None, result, np.array([f"p{i}" for i in range(len(theta))]), None, None


# FloBaRoID


class Data:
    def __init__(self, opt: dict[str, Any]) -> None:
        self.opt = opt

    def init_from_files(self, measurements_files: list[list[str]]) -> None:
        parts = []
        for names in measurements_files:
            assert not isinstance(names, str)
            parts += [dict(np.load(name)) for name in names]
        assert [self.opt[name] for name in ("showTiming", "selectBlocksFromMeasurements")] == [0, 0]
        start = self.opt["startOffset"]
        keys = [key for key in parts[0] if parts[0][key].ndim]
        self.samples = {key: np.concatenate([part[key][start:] for part in parts]) for key in keys}


class Identification:
    def __init__(
        self,
        opt: dict[str, Any],
        urdf_file: str,
        urdf_file_real: str | None,
        measurements_files: list[list[str]] | None,
        regressor_file: str | None,
        validation_file: str | None,
    ) -> None:
        self.opt, self.data = opt, Data(opt)
        names = [joint.get("name") for joint in ElementTree.parse(urdf_file).iter("joint")]  # noqa: S314
        self.model = SimpleNamespace(jointNames=names[::-1], computeRegressors=self._regressors, xStd=None)
        self.paramHelpers = SimpleNamespace(isPhysicalConsistent=lambda params: params is not None)
        self.urdfHelpers = SimpleNamespace(replaceParamsInURDF=self._replace)

    def _regressors(self, data: Data, only_simulate: bool = False) -> None:
        samples = data.samples
        motion = (samples[key] for key in ("positions", "velocities", "accelerations"))
        self.model.YStd, self.model.tau = regressor(*motion, weight=True), samples["torques"].ravel()

    def estimateParameters(self) -> None:
        self._regressors(self.data)
        self.model.xStd = np.linalg.lstsq(self.model.YStd, self.model.tau, rcond=None)[0]

    def estimateRegressorTorques(self, estimateWith: str | None = None, print_stats: bool = False) -> None:
        count = len(self.data.samples["positions"])
        self.tauEstimated = (self.model.YStd @ self.model.xStd).reshape(count, -1)

    @staticmethod
    def _replace(input_urdf: str, output_urdf: str, new_params: Float) -> None:
        Path(output_urdf).write_text(Path(input_urdf).read_text(encoding="utf-8"), encoding="utf-8")


def packages(folder: Path) -> dict[str, ModuleType]:
    """Modules by name; `folder` gets the configuration that FloBaRoID has beside its program."""
    (folder / "configs").mkdir()
    authors = {"startOffset": 500, "showTiming": 0, "selectBlocksFromMeasurements": 0}
    (folder / "configs" / "kuka_lwr4.yaml").write_text(yaml.safe_dump(authors), encoding="utf-8")
    return dict(
        [
            module("robot_payload_id"),
            module(
                "robot_payload_id.data",
                compute_base_param_mapping=compute_base_param_mapping,
                extract_numeric_data_matrix_autodiff=extract_numeric_data_matrix_autodiff,
            ),
            module("robot_payload_id.environment", create_arm=create_arm),
            module("robot_payload_id.optimization", solve_inertial_param_sdp=solve_inertial_param_sdp),
            module("robot_payload_id.utils", ArmPlantComponents=ArmPlantComponents, JointData=JointData),
            module("robot_payload_id.utils.param_getters", get_plant_joint_params=get_plant_joint_params),
            module("identification"),
            module("identification.data", Data=Data),
            module("identifier", Identification=Identification, __file__=str(folder / "identifier.py")),
        ]
    )
