"""The verb and its command: formats, refusals, ensembles."""

from __future__ import annotations

import csv
import errno
import os
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, InputError, RefusedError, ResourceError, UsageError
from dynid.estimate import WLS, FeasibleFit
from dynid.exporters import ExportModel, export, read_model_json, sample_parameters, summary_lines
from dynid.identification import Settings, identify
from dynid.log import read_log
from dynid.robot import load_robot
from dynid.run import Identification, load
from dynid.simulation import inverse
from dynid.spatial import from_khalil, is_physical
from dynid.verbs import save
from tests.command_line import Run
from tests.export.models import AGREE, states

pytestmark = pytest.mark.usefixtures("unexamined")


@pytest.fixture(scope="module")
def identified(robot_file: Path, train_log: Path) -> Identification:
    robot = load_robot(robot_file)
    # Short and noisy: without constraints its bodies are not physically consistent.
    return identify(robot, read_log(train_log, robot), Settings(estimator=WLS(), automatic=False), threads=1)


@pytest.fixture(scope="module")
def physical(identified: Identification) -> Identification:
    """The run with the description's bodies as its full parameters."""
    estimate = identified.estimate
    theta = np.array([0.3 if np.isnan(column.prior) else column.prior for column in estimate.columns])
    return replace(identified, estimate=replace(estimate, parameters=theta))


@pytest.fixture(scope="module")
def folder(identified: Identification, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "run"
    save(identified, path)
    return path


def test_json_gives_the_same_torque(identified: Identification, tmp_path: Path) -> None:
    export(identified, tmp_path / "m.json")
    robot, terms, theta = read_model_json(tmp_path / "m.json")
    q, dq, ddq = states(robot)
    wanted = inverse(identified.robot, identified.terms, identified.estimate.full_vector, q, dq, ddq)
    np.testing.assert_allclose(inverse(robot, terms, theta, q, dq, ddq), wanted, rtol=0, atol=1e-9)
    exact = inverse(identified.robot, identified.terms, identified.estimate.parameters, q, dq, ddq)
    np.testing.assert_allclose(inverse(robot, terms, theta, q, dq, ddq), exact, rtol=0, atol=AGREE)


@pytest.mark.parametrize("order", ["khalil", "pinocchio"])
def test_tables_give_the_same_parameters(identified: Identification, tmp_path: Path, order: str) -> None:
    export(identified, tmp_path / "m.csv", order)
    with (tmp_path / "m.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(row["body"] for row in rows) == identified.robot.body_names
    symbols = list(rows[0])[2:12]
    values = np.array([[float(row[symbol]) for symbol in symbols] for row in rows])
    if order == "khalil":
        values = np.array([from_khalil(row) for row in values])
    np.testing.assert_array_equal(values, ExportModel.of_run(identified).inertia)


def test_damaged_json_is_refused(tmp_path: Path) -> None:
    for text in (
        "",
        "{}",
        "[]",
        '{"kind": "dynid-model", "format": 99}',
        '{"kind": "dynid-model", "format": 1}',
    ):
        (tmp_path / "m.json").write_text(text)
        with pytest.raises(InputError):
            read_model_json(tmp_path / "m.json")


@pytest.mark.parametrize("suffix", ["urdf", "xml"])
def test_a_written_description_has_the_model_in_it(
    physical: Identification, tmp_path: Path, suffix: str
) -> None:
    diagnostics = Diagnostics()
    export(physical, tmp_path / f"m.{suffix}", diagnostics=diagnostics)
    again = load_robot(tmp_path / f"m.{suffix}")
    model = ExportModel.of_run(physical)
    np.testing.assert_allclose(again.inertia_prior, model.inertia, atol=1e-12)
    np.testing.assert_allclose(again.friction_prior, np.column_stack([model.viscous, model.coulomb]))
    (left_out,) = diagnostics.warnings
    assert "offset" in left_out.text
    assert ("rotor" in left_out.text) == (suffix == "urdf")


@pytest.mark.parametrize("suffix", ["urdf", "xml", "sdf"])
def test_bodies_that_cannot_exist_are_written_as_ones_that_can(
    physical: Identification, tmp_path: Path, suffix: str
) -> None:
    theta = np.array(physical.estimate.parameters)
    theta[4] = -1.0
    bad = replace(physical, estimate=replace(physical.estimate, parameters=theta))
    diagnostics = Diagnostics()
    exported = export(bad, tmp_path / f"m.{suffix}", diagnostics=diagnostics)
    assert exported.moved is not None
    (said,) = (item.text for item in diagnostics.warnings if item.identifier == "export-consistent")
    assert "eigenvalues" in said
    assert "on the fitted motion" in said
    if suffix != "sdf":  # which is written alone
        assert all(is_physical(pi) for pi in load_robot(tmp_path / f"m.{suffix}").inertia_prior)
    # Consistent parameters that the run found itself are those that are written.
    own = np.array(physical.estimate.parameters)
    bad = replace(bad, estimate=replace(bad.estimate, consistent=own))
    export(bad, tmp_path / f"own.{suffix}")
    export(physical, tmp_path / f"physical.{suffix}")
    assert (tmp_path / f"own.{suffix}").read_bytes() == (tmp_path / f"physical.{suffix}").read_bytes()
    # As identified only for those who ask.
    export(bad, tmp_path / f"as.{suffix}", allow_unphysical=True, diagnostics=diagnostics)
    assert any(item.identifier == "unphysical" for item in diagnostics.warnings)
    assert (tmp_path / f"as.{suffix}").stat().st_size > 0


@pytest.mark.parametrize("suffix", ["urdf", "xml", "json"])
def test_the_closest_consistent_bodies_are_written(
    identified: Identification, tmp_path: Path, suffix: str
) -> None:
    assert ExportModel.of_run(identified).unphysical()
    exported = export(identified, tmp_path / f"m.{suffix}", feasible=True)
    assert exported.moved is not None
    # Two joints and good data: what no physically consistent body has lies in directions that the torque does not show.
    assert (exported.moved < 1e-3).all()
    assert "links made physically consistent" in "\n".join(summary_lines(exported, identified))
    if suffix != "json":
        robot = load_robot(tmp_path / f"m.{suffix}")
        assert all(is_physical(pi) for pi in robot.inertia_prior)
        return
    robot, terms, theta = read_model_json(tmp_path / "m.json")
    q, dq, ddq = states(robot)
    wanted = inverse(robot, terms, identified.estimate.parameters, q, dq, ddq)
    found = inverse(robot, terms, theta, q, dq, ddq)
    assert np.linalg.norm(found - wanted) < 0.01 * np.linalg.norm(wanted)


def test_real_bodies_stay_as_they_are(physical: Identification, tmp_path: Path) -> None:
    exported = export(physical, tmp_path / "m.urdf", feasible=True)
    assert exported.moved is None
    again = load_robot(tmp_path / "m.urdf")
    np.testing.assert_allclose(again.inertia_prior, ExportModel.of_run(physical).inertia, atol=1e-12)


def test_limits_of_a_feasible_run_hold_for_its_ensemble(
    robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    robot = load_robot(robot_file)
    light = FeasibleFit(limits=({"body": 1, "mass": (0.3, 0.4)},))
    run = identify(robot, read_log(train_log, robot), Settings(estimator=light, automatic=False), threads=1)
    drawn = sample_parameters(run, 2, feasible=True)
    assert (drawn.parameters[:, 0] <= 0.4 + 1e-5).all()
    assert (drawn.parameters[:, 0] >= 0.3 - 1e-5).all()


def test_a_run_from_a_urdf_changes_that_file(physical: Identification, tmp_path: Path) -> None:
    export(physical, tmp_path / "first.urdf")
    text = (tmp_path / "first.urdf").read_text().replace("<robot", "<!-- mine -->\n<robot")
    (tmp_path / "own.urdf").write_text(text)
    robot = load_robot(tmp_path / "own.urdf")
    theta = np.array(physical.estimate.parameters)
    theta[0] = 2.5
    run = replace(physical, robot=robot, estimate=replace(physical.estimate, parameters=theta))
    export(run, tmp_path / "new.urdf")
    changed = (tmp_path / "new.urdf").read_text()
    assert "<!-- mine -->" in changed
    assert len(changed.splitlines()) == len(text.splitlines())
    np.testing.assert_allclose(
        load_robot(tmp_path / "new.urdf").inertia_prior.ravel(), theta[:20], atol=1e-12
    )
    with pytest.raises(RefusedError, match="also an input"):
        export(run, tmp_path / "own.urdf", force=True)
    assert (tmp_path / "own.urdf").read_text() == text


def test_an_exported_run_loads_without_the_meshes_of_its_description(
    physical: Identification, tmp_path: Path
) -> None:
    export(physical, tmp_path / "first.xml")
    export(physical, tmp_path / "first.urdf")
    text = (tmp_path / "first.xml").read_text()
    text = text.replace("<worldbody>", '<asset><mesh file="gone.stl"/></asset>\n<worldbody>')
    text = text.replace("</body>", '<geom type="mesh" mesh="gone"/>\n</body>', 1)
    (tmp_path / "own.xml").write_text(text)
    mesh = '<visual><geometry><mesh filename="gone.stl"/></geometry></visual></link>'
    (tmp_path / "own.urdf").write_text((tmp_path / "first.urdf").read_text().replace("</link>", mesh, 1))
    for suffix in ("xml", "urdf"):
        run = replace(physical, robot=load_robot(tmp_path / f"own.{suffix}"))
        diagnostics = Diagnostics()
        export(run, tmp_path / f"new.{suffix}", diagnostics=diagnostics)
        said = [item.text for item in diagnostics.warnings if item.identifier == "absent-shapes"]
        assert len(said) == 1
        assert "gone.stl" in said[0]
    there = mujoco.MjModel.from_xml_path(str(tmp_path / "new.xml"))
    mass = physical.estimate.parameters[[0, 10]]
    np.testing.assert_allclose(there.body_mass[1:], mass, rtol=1e-12)
    assert '<!-- <mesh file="gone.stl"/> -->' in (tmp_path / "new.xml").read_text()
    assert mesh.removesuffix("</link>") in (tmp_path / "new.urdf").read_text()
    again = pin.buildModelFromUrdf(str(tmp_path / "new.urdf"))
    np.testing.assert_allclose([one.mass for one in again.inertias[1:]], mass, rtol=1e-12)


def test_a_shape_that_mujoco_refuses_is_left_out(physical: Identification, tmp_path: Path) -> None:
    export(physical, tmp_path / "first.xml")
    text = (tmp_path / "first.xml").read_text()
    text = text.replace("<worldbody>", '<asset><mesh file="broken.stl"/></asset>\n<worldbody>')
    (tmp_path / "own.xml").write_text(
        text.replace("</body>", '<geom type="mesh" mesh="broken"/>\n</body>', 1)
    )
    (tmp_path / "broken.stl").write_bytes(b"no mesh")
    diagnostics = Diagnostics()
    run = replace(physical, robot=load_robot(tmp_path / "own.xml"))
    export(run, tmp_path / "new.xml", diagnostics=diagnostics)
    assert [item.identifier for item in diagnostics.warnings].count("absent-shapes") == 1
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "new.xml")).ngeom == 0


def test_mjx_gets_options_that_it_has_and_what_it_lacks_is_named(
    physical: Identification, tmp_path: Path
) -> None:
    export(physical, tmp_path / "first.xml")
    text = (tmp_path / "first.xml").read_text()
    text = text.replace(
        'integrator="implicitfast"', 'integrator="implicit" solver="PGS" noslip_iterations="3"'
    )
    text = text.replace("</mujoco>", '<sensor><user dim="1"/></sensor></mujoco>')
    (tmp_path / "own.xml").write_text(text)
    diagnostics = Diagnostics()
    run = replace(physical, robot=load_robot(tmp_path / "own.xml"))
    (path,) = export(run, tmp_path / "playground", diagnostics=diagnostics).files
    option = mujoco.MjModel.from_xml_path(str(path)).opt
    assert option.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert option.solver == mujoco.mjtSolver.mjSOL_NEWTON
    assert option.noslip_iterations == 0
    (warning,) = [one.text for one in diagnostics.warnings if one.identifier == "mjx-unsupported"]
    assert warning.endswith("sensor of type USER")


def test_a_folder_without_permission_and_a_full_disk(
    identified: Identification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "m.c"
    there.write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *_: False)
        with pytest.raises(ResourceError, match="no permission"):
            export(identified, tmp_path / "m.json")
    written = []

    def full(path: Path, data: bytes) -> int:
        written.append(path)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        with path.open("wb") as file:
            return file.write(data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ResourceError, match="No space") as stopped:
        export(identified, there, force=True)
    assert stopped.value.exit_code == 6
    # Nothing half written stays behind, and the old file is whole.
    assert [path.name for path in tmp_path.iterdir()] == ["m.c"]
    assert there.read_text() == "mine"


def test_bad_targets(identified: Identification, tmp_path: Path) -> None:
    there = tmp_path / "m.json"
    there.write_text("mine")
    with pytest.raises(RefusedError, match="exists already"):
        export(identified, there)
    assert there.read_text() == "mine"
    export(identified, there, force=True)
    assert there.read_text() != "mine"
    (tmp_path / "m.h").write_text("mine")
    with pytest.raises(RefusedError, match=r"m\.h"):
        export(identified, tmp_path / "m.c")
    export(identified, tmp_path / "new" / "folder" / "m.json")
    assert (tmp_path / "new" / "folder" / "m.json").is_file()
    with pytest.raises(ResourceError, match="which is a file"):
        export(identified, there / "m.json")
    with pytest.raises(RefusedError, match="is a folder"):
        export(identified, tmp_path, "json", force=True)
    with pytest.raises(UsageError, match="suffix"):
        export(identified, tmp_path / "m.docx")
    with pytest.raises(UsageError, match="format 'step'"):
        export(identified, tmp_path / "m.step", "step")
    with pytest.raises(UsageError, match="letters"):
        export(identified, tmp_path / 'x"\n#error.c')


def test_ensembles_follow_the_covariance(identified: Identification) -> None:
    drawn = sample_parameters(identified, 4000, seed=3, width="noise")
    estimate = identified.estimate
    beta = drawn.parameters @ estimate.base.B.T
    np.testing.assert_allclose(
        beta.mean(axis=0), estimate.value, atol=5 * np.max(estimate.std) / np.sqrt(4000)
    )
    size = np.sqrt(np.outer(np.diag(estimate.covariance), np.diag(estimate.covariance)))
    assert np.abs((np.cov(beta.T) - estimate.covariance) / size).max() < 0.1
    again = sample_parameters(identified, 4000, seed=3, width="noise")
    np.testing.assert_array_equal(again.parameters, drawn.parameters)
    assert (drawn.spread > 0).all()
    assert (drawn.spread < 0.05).all()
    with pytest.raises(UsageError, match="0 models"):
        sample_parameters(identified, 0)


def test_an_ensemble_is_so_many_files(identified: Identification, tmp_path: Path) -> None:
    exported = export(identified, tmp_path / "m.json", ensemble=3, seed=1)
    assert [path.name for path in exported.files] == ["m_001.json", "m_002.json", "m_003.json"]
    thetas = [read_model_json(path)[2] for path in exported.files]
    assert not np.array_equal(thetas[0], thetas[1])


@pytest.mark.parametrize("suffix", ["urdf", "xml"])
def test_drawn_models_are_projected_on_real_bodies(
    identified: Identification, tmp_path: Path, suffix: str
) -> None:
    # The estimate itself belongs to no physically consistent bodies here.
    assert ExportModel.of_run(identified).unphysical()
    exported = export(identified, tmp_path / f"m.{suffix}", ensemble=3, seed=2)
    assert exported.ensemble is not None
    assert (exported.ensemble.spread < 0.05).all()
    for path in exported.files:
        robot = load_robot(path)
        assert all(is_physical(pi) for pi in robot.inertia_prior)
        assert (robot.friction_prior >= 0).all()


def test_the_command(run: Run, folder: Path, tmp_path: Path) -> None:
    done = run("export", folder, "--to", tmp_path / "two.c")
    assert done.code == 0
    assert "two.c" in done.out
    assert (tmp_path / "two.h").is_file()
    assert run("export", folder, "--to", tmp_path / "two.c").code == 7
    assert run("export", folder, "--to", tmp_path / "two.c", "--force").code == 0
    assert run("export", folder, "--to", tmp_path / "two.txt").code == 2
    assert run("export", folder, "--to", tmp_path / "k.csv", "--format", "khalil").code == 0
    assert run("export", folder, "--to", tmp_path / "no" / "two.json").code == 0  # folders are made
    assert run("export", folder, "--to", tmp_path / "two.c" / "three.json").code == 6
    assert run("export", folder, "--to", tmp_path / "two.sdf", "--feasible").code == 0
    assert run("export", tmp_path, "--to", tmp_path / "x.json").code == 3
    drawn = run("export", folder, "--to", tmp_path / "e.json", "--ensemble", "2", "--seed", "5")
    assert drawn.code == 0
    assert "torque spread" in drawn.out
    assert load(folder).estimate.base.rank > 0
