"""Logs in the layouts of all presets, names changed, and logs whose names mislead: right or asked, never wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from dynid.layouts import Proposal, propose_logs
from tests.layouts.plants import Layout, layouts_of_presets, mistakes, traps

PRESETS = layouts_of_presets()
LAYOUTS = [*PRESETS, *traps()]
# Of three spellings of every preset the last is slow: each kind of spelling is the second of some other preset.
AGAIN = {one.label for one in PRESETS[2::3]}


@pytest.fixture(scope="module")
def proposed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Layout], Proposal]:
    """What is found in a layout's log, once for all tests."""

    @cache
    def found(layout: Layout) -> Proposal:
        return propose_logs(layout.robot, [layout.write(tmp_path_factory.mktemp("layout") / "log.parquet")])

    return found


@pytest.mark.parametrize(
    "layout",
    [pytest.param(one, marks=[pytest.mark.slow] if one.label in AGAIN else []) for one in LAYOUTS],
    ids=lambda one: one.label,
)
def test_nothing_wrong_is_said_without_a_question(
    layout: Layout, proposed: Callable[[Layout], Proposal]
) -> None:
    assert mistakes(layout, proposed(layout)) == []


def test_there_are_enough_of_them() -> None:
    assert len(LAYOUTS) >= 60


# What must not be asked: recorders whose documents say everything, and physics that leaves no doubt.
CLEAR = {
    "franka-ros, plain", "iiwa-fri, plain", "kortex, plain", "libfranka, plain", "plotjuggler, plain", "pyfri, plain",
    "ros, plain", "ros2-control, plain", "rostopic, plain", "ur-ros, plain", "ur-rtde, plain", "alphabetical",
    "degrees, not said", "positions in deg, velocities in rad/s", "thousandths of N m", "a clock of ms",
    "a model beside the torque", "brackets", "two fingers more",
}  # fmt: skip


@pytest.mark.parametrize("layout", [one for one in LAYOUTS if one.label in CLEAR], ids=lambda one: one.label)
def test_nothing_is_asked_that_can_be_seen(layout: Layout, proposed: Callable[[Layout], Proposal]) -> None:
    found = proposed(layout)
    assert [one.key for one in found.open] == []
    for channel, columns in layout.truth.items():
        if channel != "time":
            assert tuple(found.groups[channel].columns.values()) == columns
            assert found[f"log.{channel}.unit"].value == layout.units[channel]


def test_the_list_is_of_layouts() -> None:
    assert not CLEAR - {one.label for one in LAYOUTS}
