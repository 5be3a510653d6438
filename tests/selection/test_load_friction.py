"""Friction that grows with the load: found where gears have it, and not where they lack it; on plants by pinocchio."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.exporters import ExportModel
from dynid.identification import identify
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.run import Identification
from dynid.terms import LoadFriction
from dynid.testing import Plant, Unmodelled, plant, record

pytestmark = pytest.mark.usefixtures("unexamined")

LOST = 0.07
# What this plant has besides: cables, and torque that is rounded.
BESIDE = Unmodelled(cable=0.01, torque_step=0.003)


def logged(path: Path, one: Plant, loaded: float, seed: int) -> Log:
    lacks = replace(BESIDE, loaded=loaded)
    made = record(one, np.random.default_rng(seed), lacks, machine=np.random.default_rng(9))
    columns = canonical_columns(one.described.joint_names, made.q, dq=made.dq, tau=made.tau)
    write_log(path, made.t, columns)
    return read_log(path, one.described)


def identified(folder: Path, loaded: float) -> Identification:
    one = plant("finger", np.random.default_rng(3))
    train, unseen = (logged(folder / f"{seed}.parquet", one, loaded, seed) for seed in (1, 2))
    return identify(one.described, train, validation=unseen, threads=1, diagnostics=Diagnostics())


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    return identified(tmp_path_factory.mktemp("loaded"), LOST)


def test_gears_that_lose_a_share_of_their_load_are_found(loaded: Identification) -> None:
    assert loaded.selection is not None
    assert all("load-dependent" in one.form for one in loaded.selection.friction)
    assert len(loaded.selection.friction) == loaded.robot.n
    share = [
        value
        for column, value in zip(loaded.estimate.columns, loaded.estimate.parameters, strict=True)
        if column.term == "load_friction"
    ]
    np.testing.assert_allclose(share, LOST, atol=0.25 * LOST)
    (unseen,) = loaded.validations
    assert unseen.scores.total_relative < 0.03


def test_gears_that_do_not_are_not_said_to(tmp_path: Path) -> None:
    found = identified(tmp_path, 0.0)
    assert not any(isinstance(term, LoadFriction) for term in found.terms)


def test_programs_without_dynid_get_its_mean(loaded: Identification) -> None:
    """Dry friction of an exported model is that of the log's mean load within a third: poses are not the log's."""
    exported = ExportModel.of_run(loaded)
    assert any("load_friction" in what for what in exported.left_out)
    one = next(term for term in loaded.terms if isinstance(term, LoadFriction))
    names = [column.name for column in loaded.estimate.columns]
    plain = np.array([loaded.estimate.parameters[names.index(f"fc{j + 1}")] for j in range(loaded.robot.n)])
    assert len(one.inertia) == 10 * loaded.robot.n_bodies
    assert (exported.coulomb > plain).all()
