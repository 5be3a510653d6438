"""One file of an ensemble: what its models change in a compiled MuJoCo model, for domain randomisation."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.robot.mjcf import compile_mjcf
from dynid.robot.reading import Reading
from dynid.robot.xml import parse

# Fields of MuJoCo's mjModel that an export writes: by body, by degree of freedom and, of models with springs, by joint.
BODY_FIELDS = ("body_mass", "body_ipos", "body_iquat", "body_inertia")
DOF_FIELDS = ("dof_damping", "dof_frictionloss", "dof_armature")
JOINT_FIELDS = ("jnt_stiffness", "qpos_spring")


def samples_npz(models: Sequence[bytes], target: Path, reading: Reading, diagnostics: Diagnostics) -> bytes:
    """A NumPy archive of MJCF models: each field of mjModel that differs by model, (N, ...), and names.

    body_names (nbody,), dof_names (nv,): of the joint that a degree of freedom belongs to; "" = it has none.
    """
    fields: dict[str, list[Any]] = {name: [] for name in (*BODY_FIELDS, *DOF_FIELDS, *JOINT_FIELDS)}
    names: dict[str, Any] = {}
    for text in models:
        model = compile_mjcf(parse(text, str(target)), target, reading, diagnostics).model
        for name, values in fields.items():
            values.append(np.array(getattr(model, name)))
        if not names:
            names["body_names"] = np.array([model.body(i).name for i in range(model.nbody)])
            names["dof_names"] = np.array([model.joint(int(j)).name for j in model.dof_jntid])
    if not np.any(fields["jnt_stiffness"]):
        for name in JOINT_FIELDS:
            del fields[name]
    stream = io.BytesIO()
    arrays: dict[str, Any] = names | {name: np.array(values) for name, values in fields.items()}
    np.savez(stream, **arrays)
    return stream.getvalue()
