"""A robot format: pendulums that hang on each other, given by their lengths."""

import numpy as np

from dynid.robot.drive import Drive
from dynid.robot.model import JointType, Limits, RobotModel


class Pendulums:
    name = "pendulums"

    def knows(self, file):
        return file.tag == "pendulums"

    def read(self, file):
        lengths = [float(rod.attributes["length"]) for rod in file.root.all("rod")]
        n = len(lengths)
        T = np.tile(np.eye(4), (n, 1, 1))
        T[1:, 0, 3] = lengths[:-1]
        names = tuple(f"pivot{i + 1}" for i in range(n))
        return RobotModel(
            name="pendulums",
            source=str(file.path),
            body_names=tuple(f"rod{i + 1}" for i in range(n)),
            tree_joint_names=names,
            joint_names=names,
            parent=np.arange(n) - 1,
            joint_types=(JointType.CONTINUOUS,) * n,
            T_parent_joint=T,
            axis=np.tile([0.0, 1.0, 0.0], (n, 1)),
            inertia_prior=np.full((n, 10), np.nan),
            gravity=np.array([0.0, 0.0, -9.81]),
            limits=Limits.none(n),
            drive=Drive.direct(n),
            projection=np.eye(n),
            projection_offset=np.zeros(n),
            friction_prior=np.full((n, 2), np.nan),
        )
