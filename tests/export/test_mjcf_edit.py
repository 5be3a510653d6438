"""The user's own MJCF: only numbers of inertias and joints change, and MuJoCo and pinocchio find the model's torque."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, InputError
from dynid.exporters import ExportModel, NotEditable, edit_mjcf, export
from dynid.exporters.xml_edit import scan
from dynid.identification import Settings, identify
from dynid.log import read_log
from dynid.robot import Reading, load_robot, parse
from dynid.run import Identification
from dynid.spatial import from_com
from tests.export.models import AGREE, check_in_mujoco, model_of, mujoco_torque, states
from tests.robot_files import ROBOTS

pytestmark = pytest.mark.usefixtures("unexamined")

# Degrees, defaults by class, a joint off the body's origin and with a reference, a frame, a body without joint, masses
# from a geom, every way to write an inertia.
ARM = """<!-- calibrated by hand -->
<mujoco model='my "arm"'>
  <compiler angle="degree" eulerseq="xyz"/>
  <option gravity="0 1 -9.5"/>
  <default>
    <joint armature="0.05" damping="0.7"/>
    <default class="wrist"><joint armature="0.01" frictionloss="0.1"/></default>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 .1"/>
    <body name="upper" pos="0 0 .3" euler="0 20 0">   <!-- first -->
      <inertial   mass="2.50"  pos="0.1 0 0"
         euler="10 20 30" diaginertia="0.02 0.03 0.025"/>
      <joint name="shoulder" axis="0 1 0" pos="0.05 0 0.02" range="-90 90" damping='0.5'/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".05"/>
      <body name="plate" pos=".3 0 0" quat="1 0.1 0 0">
        <inertial mass="0.3" pos="0 0 0.02" fullinertia="1e-3 2e-3 1.5e-3 1e-4 0 0"/>
        <frame pos="0.02 0 0" euler="0 0 15">
          <body name="fore" pos="0.1 0 0">
            <joint name="elbow" class="wrist" axis="0 0 1" ref="30"/>
            <geom type="box" size=".1 .02 .02" pos=".1 0 0" mass="1.5"/>
            <body name="slide" pos=".2 0 0"><joint name="reach" type="slide" axis="1 0 0"/>
              <inertial mass=".4" pos="0 0.01 0" quat="0.9 0.1 0.2 0" diaginertia="1e-3 1e-3 1e-3"/></body>
          </body>
        </frame>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="m1" joint="shoulder" gear="100"/></actuator>
  <sensor><jointpos joint="elbow"/></sensor>
</mujoco>
"""


def written(folder: Path, text: str = ARM, newline: str = "\n") -> Path:
    path = folder / "arm.xml"
    path.write_bytes(text.replace("\n", newline).encode())
    return path


def known(path: Path) -> ExportModel:
    """The file's own model."""
    robot = load_robot(path)
    friction = robot.friction_prior
    nothing = np.zeros(robot.n)
    rotor = np.array(robot.drive.rotor_inertia)
    return ExportModel(robot, robot.inertia_prior, rotor, friction[:, 0], friction[:, 1], nothing, nothing)


def changed_model(path: Path) -> ExportModel:
    """Bodies heavier than the file's by so little that the plate's own share stays below the whole."""
    model = model_of(load_robot(path))
    return replace(model, inertia=1.7 * known(path).inertia)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_file_with_its_own_numbers_comes_back_byte_for_byte(tmp_path: Path, newline: str) -> None:
    path = written(tmp_path, newline=newline)
    data, faults = edit_mjcf(known(path), path, Reading())
    assert data == path.read_bytes()
    assert faults == ()


def test_mujoco_finds_the_torque_of_the_model(tmp_path: Path) -> None:
    path = written(tmp_path)
    model = changed_model(path)
    data, faults = edit_mjcf(model, path, Reading())
    assert faults == ()
    check_in_mujoco(data, model)


def test_parts_that_the_robot_did_not_carry_are_scaled_down(tmp_path: Path) -> None:
    path = written(tmp_path)
    model = changed_model(path)
    light = np.array(model.inertia)
    light[0] = from_com(0.25, np.array([0.1, 0.0, 0.0]), np.diag([1e-4, 2e-4, 2e-4]))
    model = replace(model, inertia=light)
    data, (said,) = edit_mjcf(model, path, Reading())
    assert (
        "links fixed to 'upper' (0.3 kg in the file) do not fit into the identified total (0.25 kg)" in said
    )
    check_in_mujoco(data, model)
    assert b'mass="0.3"' not in data


def test_frames_without_mass_stay_without(tmp_path: Path) -> None:
    frames = '<body name="tool" pos="9 0 0"/><body name="camera" pos="0 9 0"><body name="lens" pos="0 9 0"/></body>'
    path = written(tmp_path, ARM.replace('<joint name="reach"', frames + '<joint name="reach"'))
    model = changed_model(path)
    data, faults = edit_mjcf(model, path, Reading())
    assert faults == ()
    path.write_bytes(data)
    assert np.allclose(load_robot(path).inertia_prior, model.inertia, rtol=0, atol=1e-13)


def test_only_inertias_and_joints_change(tmp_path: Path) -> None:
    path = written(tmp_path)
    data, _ = edit_mjcf(changed_model(path), path, Reading())
    before, after = path.read_bytes(), data
    for piece in (
        b"<!-- calibrated by hand -->", b"<!-- first -->", b"model='my \"arm\"'",
        b'class="wrist" axis="0 0 1" ref="30"',
        b'<default class="wrist"><joint armature="0.01" frictionloss="0.1"/></default>', b"<actuator>", b"<sensor>",
        b'<inertial mass="0.3" pos="0 0 0.02" fullinertia="1e-3 2e-3 1.5e-3 1e-4 0 0"/>',
    ):  # fmt: skip
        assert before.count(piece) == after.count(piece) == 1, piece
    assert without_numbers(before) == without_numbers(after)


def without_numbers(data: bytes) -> bytes:
    """A file without <inertial> elements and the attributes of joints that may change."""
    root = scan(data, "x")
    spans = []
    stack = list(root.all("worldbody"))
    while stack:
        tag = stack.pop()
        stack += tag.children
        if tag.name == "inertial":
            # With the line that it may stand on alone.
            start = data.rfind(b">", 0, tag.start) + 1
            spans.append((start if not data[start : tag.start].strip() else tag.start, tag.end))
        elif tag.name == "joint":
            friction = ("frictionloss", "solreffriction", "solimpfriction")
            spans += [tag.wholes[key] for key in ("armature", "damping", *friction) if key in tag.wholes]
    kept, position = [], 0
    for start, end in sorted(spans):
        kept.append(data[position:start])
        position = end
    return b"".join([*kept, data[position:]])


def test_the_rest_that_no_body_can_have_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path)
    model = known(path)
    light = np.array(model.inertia)
    light[0] *= 0.13
    _, (fault,) = edit_mjcf(replace(model, inertia=light), path, Reading())
    assert "upper" in fault


@pytest.mark.filterwarnings("ignore:compiler attribute 'settotalmass' is deprecated")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<option ", '<compiler inertiafromgeom="true"/><option ', "inertiafromgeom"),
        ("<option ", '<compiler settotalmass="5"/><option ', "settotalmass"),
        ("<actuator>", '<include file="more.xml"/><actuator>', "include"),
    ],
)
def test_what_cannot_be_changed_in_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "more.xml").write_text("<mujocoinclude/>")
    path = written(tmp_path, ARM.replace(old, new))
    with pytest.raises(NotEditable, match=message):
        edit_mjcf(known(path), path, Reading())


def test_several_joints_of_one_body(tmp_path: Path) -> None:
    text = ARM.replace(
        '<joint name="elbow"', '<joint name="twist" axis="1 0 0" pos="0.01 0 0"/><joint name="elbow"'
    )
    path = written(tmp_path, text)
    model = changed_model(path)
    data, _ = edit_mjcf(model, path, Reading())
    q, dq, ddq = states(model.robot)
    wanted = model.rigid_torque(q, dq, ddq) + model.viscous * dq
    np.testing.assert_allclose(mujoco_torque(data, model), wanted, rtol=0, atol=AGREE * np.abs(wanted).max())
    between = np.array(model.inertia)
    between[1] = between[0]
    with pytest.raises(NotEditable, match="several joints"):
        edit_mjcf(replace(model, inertia=between), path, Reading())


def test_one_of_two_trees(tmp_path: Path) -> None:
    extra = '<body name="other"><joint name="free"/><inertial mass="1" pos="0 0 .1" diaginertia=".01 .01 .01"/></body>'
    path = written(tmp_path, ARM.replace('<geom name="floor"', extra + '<geom name="floor"'))
    robot = load_robot(path, root="upper")
    assert "free" not in robot.joint_names
    model = model_of(robot)
    data, _ = edit_mjcf(replace(model, inertia=1.7 * robot.inertia_prior), path, Reading(root="upper"))
    assert extra.encode() in data
    again = load_robot(written(tmp_path, data.decode()), root="upper")
    np.testing.assert_allclose(again.inertia_prior, 1.7 * robot.inertia_prior, atol=1e-12)


def test_another_robot_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    model = known(path)
    with pytest.raises(InputError, match="other-robot"):
        edit_mjcf(model, written(tmp_path, ARM.replace('pos=".2 0 0"', 'pos=".3 0 0"')), Reading())
    path.write_text("<robot/>")
    with pytest.raises(InputError, match="robot-format"):
        edit_mjcf(model, path, Reading())


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    evil = "&quot;/&gt;&lt;body/&gt;&lt;!-- "
    path = written(tmp_path, ARM.replace('"fore"', f'"{evil}"').replace('"elbow"', f'"{evil}"'))
    model = changed_model(path)
    data, _ = edit_mjcf(model, path, Reading())
    parse(data, "x")
    assert without_numbers(path.read_bytes()) == without_numbers(data)


@pytest.fixture(scope="module")
def run_of_mjcf(
    robot_file: Path, train_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Identification:
    """A run whose robot came from an MJCF file with a comment in it."""
    first = identify(
        load_robot(robot_file),
        read_log(train_log, load_robot(robot_file)),
        Settings(automatic=False),
        threads=1,
    )
    theta = np.array([0.3 if np.isnan(column.prior) else column.prior for column in first.estimate.columns])
    physical = replace(first, estimate=replace(first.estimate, parameters=theta))
    path = tmp_path_factory.mktemp("mjcf") / "own.xml"
    export(physical, path)
    path.write_text(path.read_text().replace("<worldbody>", "<!-- mine --><worldbody>"))
    heavier = np.array(theta)
    heavier[:20] *= 1.3
    robot = replace(load_robot(path), gravity=np.array(first.robot.gravity))
    return replace(physical, robot=robot, estimate=replace(physical.estimate, parameters=heavier))


def test_the_verb_changes_the_runs_own_file(run_of_mjcf: Identification, tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    export(run_of_mjcf, tmp_path / "new.xml", diagnostics=diagnostics)
    assert "<!-- mine -->" in (tmp_path / "new.xml").read_text()
    again = load_robot(tmp_path / "new.xml")
    np.testing.assert_allclose(again.inertia_prior.ravel(), run_of_mjcf.estimate.parameters[:20], atol=1e-12)
    # Another format of the same run has nothing to change in place.
    export(run_of_mjcf, tmp_path / "new.urdf")
    assert "mine" not in (tmp_path / "new.urdf").read_text()


def test_the_verb_writes_anew_what_it_cannot_change(run_of_mjcf: Identification, tmp_path: Path) -> None:
    own = Path(run_of_mjcf.robot.source)
    source = tmp_path / "included.xml"
    (tmp_path / "nothing.xml").write_text("<mujocoinclude/>")
    source.write_text(own.read_text().replace("<!-- mine -->", '<include file="nothing.xml"/>'))
    diagnostics = Diagnostics()
    export(run_of_mjcf, tmp_path / "new.xml", source=source, diagnostics=diagnostics)
    assert "mjcf-new" in {item.identifier for item in diagnostics.warnings}
    again = load_robot(tmp_path / "new.xml")
    np.testing.assert_allclose(again.inertia_prior.ravel(), run_of_mjcf.estimate.parameters[:20], atol=1e-12)


def test_pinocchio_finds_the_torque_in_a_new_file(tmp_path: Path) -> None:
    from dynid.exporters import new_mjcf

    robot = load_robot(ROBOTS / "puma560.toml")
    model = model_of(robot)
    (tmp_path / "p.xml").write_bytes(new_mjcf(model))
    theirs = pin.buildModelFromMJCF(str(tmp_path / "p.xml"))
    theirs.gravity.linear = np.array(robot.gravity)
    scratch = theirs.createData()
    q, dq, ddq = states(robot)
    found = []
    for t in range(len(q)):
        x = pin.neutral(theirs)
        for i in range(robot.n):
            joint = theirs.joints[i + 1]
            x[joint.idx_q : joint.idx_q + joint.nq] = (
                (np.cos(q[t, i]), np.sin(q[t, i])) if joint.nq == 2 else q[t, i]
            )
        found.append(pin.rnea(theirs, scratch, x, np.array(dq[t]), np.array(ddq[t])))
    wanted = model.rigid_torque(q, dq, ddq)
    np.testing.assert_allclose(np.array(found), wanted, rtol=0, atol=AGREE * np.abs(wanted).max())
