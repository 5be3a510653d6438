"""A joint that moves without an effort in the log: its motion counts, its equation does not; plants by pinocchio."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest

from benchmarks.plants import Plant, Recorded, Unmodelled, plant, record
from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UsageError
from dynid.estimate import OE
from dynid.identification.pipeline import identify
from dynid.identification.settings import Settings
from dynid.log.read import Log
from dynid.rows import EnergyRows
from dynid.run.result import Identification
from dynid.run.validation import validate

SILENT = 1  # of the finger's three joints: it carries one and is carried by one
BESIDE = Unmodelled(cable=0.005, torque_step=0.002)


@cache
def finger() -> tuple[Plant, Recorded, Recorded]:
    one = plant("finger", np.random.default_rng(3))
    first, second = (
        record(one, np.random.default_rng(seed), BESIDE, machine=np.random.default_rng(9)) for seed in (1, 2)
    )
    return one, first, second


def logged(one: Plant, made: Recorded, effort: float | None = None) -> Log:
    """The log; effort: what stands in the column of the silent joint, None = what was measured."""
    tau = np.array(made.tau)
    if effort is not None:
        tau[:, SILENT] = effort
    return Log.from_arrays(one.described, made.t, made.q, tau, made.dq)


@cache
def identified(effort: float | None) -> Identification:
    one, first, _ = finger()
    log = logged(one, first, effort)
    return identify(one.described, log, threads=1, diagnostics=Diagnostics())


def others(values: Float) -> Float:
    return np.delete(values, SILENT)


@pytest.mark.parametrize("effort", [np.nan, -3.5])
def test_what_stands_in_place_of_an_effort_does_not_matter(effort: float) -> None:
    """Nothing, zero, or one value throughout: the same bytes, and one warning."""
    zero, found = identified(0.0), identified(effort)
    np.testing.assert_array_equal(found.estimate.parameters, zero.estimate.parameters)
    (warning,) = [one for one in found.diagnostics.warnings if one.identifier == "joint-unmeasured"]
    assert f"'{finger()[0].described.joint_names[SILENT]}'" in warning.text
    assert not found.diagnostics.doubts


def test_the_other_joints_are_predicted_as_if_all_had_been_measured() -> None:
    one, _, unseen = finger()
    scores = {
        name: validate(run, logged(one, unseen), Diagnostics(), threads=1).scores
        for name, run in {"all": identified(None), "silent": identified(0.0)}.items()
    }
    assert (others(scores["silent"].relative) <= 1.1 * others(scores["all"].relative)).all()
    # What is not known of the silent joint is its own friction and rotor, and not what its bodies do to it.
    own, known = identified(0.0), {column.name for column in identified(0.0).estimate.columns}
    gaps: Mapping[str, float] = dict(zip(one.described.joint_names, own.training.scores.count, strict=True))
    assert [name for name, count in gaps.items() if not count] == [one.described.joint_names[SILENT]]
    assert {"Ia2", "fv2"} <= known
    named = {own.estimate.columns[k].name for k in own.estimate.base.independent}
    assert not named & {"Ia2", "fv2", "fc2", "fo2"}


@pytest.mark.parametrize("settings", [Settings(estimator=OE()), Settings(rows=EnergyRows())])
def test_what_needs_every_torque_is_refused(settings: Settings) -> None:
    one, first, _ = finger()
    with pytest.raises(UsageError, match="no-effort"):
        identify(one.described, logged(one, first, 0.0), settings, threads=1, diagnostics=Diagnostics())
