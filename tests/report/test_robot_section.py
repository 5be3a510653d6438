"""The robot in 3-D: its motion is the log's, its colours say who decides the masses."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dynid.report import report_html
from dynid.report.section import worst_held_out
from dynid.report.sections.robot import (
    DESCRIBED,
    KNOWN,
    LONGEST,
    MESH_BYTES,
    NONE,
    PARTLY,
    colours,
    recorded_motion,
)
from dynid.robot import Reading, read_robot
from dynid.run import DATAS, PRIORS, Identification
from dynid.run.links import links
from dynid.scene import scene_fragment, scene_of
from tests.robot.shipped import shipped


def test_each_link_has_the_colour_of_what_decides_its_mass(identification: Identification) -> None:
    found = colours(identification)
    assert found["base"].colour is NONE
    for link in links(identification)[0]:
        own = found[link.name]
        expected = DESCRIBED if link.mass.data < PRIORS else KNOWN if link.mass.data > DATAS else PARTLY
        assert own.colour is expected
        assert link.source in own.said
        assert " kg" in own.said
    page = report_html(identification)
    data = json.loads(page.split('class="scene-data">')[1].split("</script>")[0])
    assert {one["name"]: one["colour"] for one in data["links"]} == {
        name: one.colour.value for name, one in found.items()
    }
    for colour in {one.colour for one in found.values()}:
        assert f'<i style="background:{colour.value}"></i>' in page


def test_the_motion_is_that_of_the_worst_held_out_data(identification: Identification) -> None:
    worst = worst_held_out(identification)
    residuals = identification.training.residuals if worst is None else worst[1].residuals
    if residuals is None:
        residuals = identification.training.residuals
    assert residuals is not None
    t, q, name = recorded_motion(identification)
    assert len(t) > 1
    assert t[-1] - t[0] <= LONGEST
    assert (np.diff(t) > 0).all()
    assert name.strip("'") in residuals.trajectories
    places = np.searchsorted(residuals.t, t)
    np.testing.assert_array_equal(q, residuals.q[places])


@pytest.mark.parametrize("held_out", [True, False])
def test_without_samples_the_robot_stands(identification: Identification, held_out: bool) -> None:
    training = replace(identification.training, residuals=None)
    bare = replace(
        identification, training=training, validations=identification.validations if held_out else ()
    )
    if not held_out:
        assert len(recorded_motion(bare)[0]) == 0
    page = report_html(bare)
    assert '"motion":null' in page or held_out


def test_a_robot_with_meshes_takes_a_tenth_of_a_report() -> None:
    robot = read_robot(shipped("panda_description/urdf/panda.urdf"), Reading())
    t = np.linspace(0.0, LONGEST, 6000)
    scene = scene_of(robot, t, np.zeros((6000, robot.n)), most_bytes=MESH_BYTES)
    assert "meshes of" in scene.shapes
    assert len(scene_fragment(scene).html) < 0.13 * 3_000_000
