"""The hierarchy and the tests on it: variances found, changes named, false alarms as rare as stated."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest

from dynid.base import Float
from dynid.fleet.drift import DAYS_A_YEAR, FALSE_ALARM, Course, Effect, follow, inflation_of
from dynid.fleet.pool import Day, Hierarchy, State, fit_hierarchy, inverse, without_day

M, ROBOTS, DAYS = 5, 60, 30
TRUE = Hierarchy(
    np.array([1.0, -2.0, 0.5, 0.0, 0.0]),
    np.array([0.3, 0.2, 1e-4, 0.1, 1e-6]) ** 2,
    np.array([0.05, 1e-4, 0.1, 0.02, 1e-4]) ** 2,
)
EFFECTS = tuple(
    Effect("", name, "1", np.eye(M)[:, place : place + width], np.full(width, 0.3))
    for name, place, width in (("friction", 0, 1), ("gain", 1, 1), ("load", 2, 3))
)


def robot(rng: np.random.Generator, days: int, shift: Float | None = None, since: int = 0) -> list[Day]:
    """Days of a robot of the true hierarchy; from one on x is shifted."""
    own = TRUE.mean + np.sqrt(TRUE.serial) * rng.normal(size=M)
    found = []
    for t in range(days):
        x = own + np.sqrt(TRUE.day) * rng.normal(size=M)
        if shift is not None and t >= since:
            x = x + shift
        rows = rng.normal(size=(40, M)) * 3.0
        h = rows.T @ (rows @ x + rng.normal(size=40))
        found.append(Day(date(2026, 1, 1) + timedelta(days=t), rows.T @ rows, h))
    return found


def fleet(count: int, days: int, seed: int = 0) -> list[tuple[str, list[Day]]]:
    rng = np.random.default_rng(seed)
    return [(str(i), robot(rng, days)) for i in range(count)]


@pytest.fixture(scope="module")
def fitted() -> Hierarchy:
    return fit_hierarchy([days for _, days in fleet(ROBOTS, DAYS)], gains=2)


def test_variances_between_robots_and_days_are_found(fitted: Hierarchy) -> None:
    large = TRUE.serial > 1e-3
    assert np.sqrt(fitted.serial[large]) == pytest.approx(np.sqrt(TRUE.serial[large]), rel=0.25)
    large = TRUE.day > 1e-3
    assert np.sqrt(fitted.day[large]) == pytest.approx(np.sqrt(TRUE.day[large]), rel=0.15)
    assert fitted.mean[:3] == pytest.approx(TRUE.mean[:3], abs=0.15)
    assert (fitted.mean[3:] == 0).all()
    small = TRUE.day < 1e-3
    assert (np.sqrt(fitted.day[small]) < 0.02).all()


def test_a_state_is_the_posterior_of_all_its_days() -> None:
    rng = np.random.default_rng(1)
    days = robot(rng, 4)
    state = State.new(TRUE, 1)
    for day in days:
        state = state.after(TRUE, day.A[None], day.h[None])
    # The same at once: each day measures x with covariance A^-1 + diag day.
    information, score = np.diag(1.0 / TRUE.serial), TRUE.mean / TRUE.serial
    for day in days:
        W = np.linalg.inv(np.linalg.inv(day.A) + np.diag(TRUE.day))
        information, score = information + W, score + W @ np.linalg.solve(day.A, day.h)
    assert state.information[0] == pytest.approx(information, rel=1e-6, abs=1e-6 * np.abs(information).max())
    assert state.mean[0] == pytest.approx(np.linalg.solve(information, score), rel=1e-6, abs=1e-9)


def test_days_without_information_say_nothing() -> None:
    own, score = without_day(TRUE, np.zeros((1, M, M)), np.zeros((1, M)))
    assert not own.any()
    assert not score.any()


def test_a_known_type_is_worth_a_long_log() -> None:
    """A short log beside its type against one six times as long alone, in information about its robot."""
    rng = np.random.default_rng(2)
    better = 0
    for _ in range(40):
        own = TRUE.mean + np.sqrt(TRUE.serial) * rng.normal(size=M)
        rows = rng.normal(size=(60, M)) * 0.3
        y = rows @ own + rng.normal(size=60)
        alone = np.linalg.lstsq(rows, y, rcond=None)[0]
        short = rows[:10], y[:10]
        state = State.new(TRUE, 1).after(TRUE, (short[0].T @ short[0])[None], (short[0].T @ short[1])[None])
        better += np.sum((state.mean[0] - own) ** 2) < np.sum((alone - own) ** 2)
    assert better > 30


def test_scores_are_standard_normal_where_nothing_changes() -> None:
    z = np.concatenate([course.z for course in follow(fleet(80, 25, 3), TRUE, EFFECTS, np.ones(3))])
    assert z.std(axis=0) == pytest.approx(np.ones(3), abs=0.06)
    assert z.mean(axis=0) == pytest.approx(np.zeros(3), abs=0.08)
    # Independent from day to day, which the sums of Bayes factors stand on.
    lagged = np.mean(
        [np.mean(c.z[1:] * c.z[:-1], axis=0) for c in follow(fleet(80, 25, 4), TRUE, EFFECTS, np.ones(3))],
        axis=0,
    )
    assert np.abs(lagged).max() < 0.08


def test_false_alarms_are_as_rare_as_stated() -> None:
    """With a threshold for 20 % in 25 days, at most so many robots have one; the stated rate is the same law."""
    courses = follow(fleet(120, 25, 5), TRUE, EFFECTS, np.ones(3), threshold=25 / 0.2)
    share = np.mean([bool(course.alarms) for course in courses])
    assert share <= 0.2
    assert FALSE_ALARM <= 0.01
    assert DAYS_A_YEAR == 365
    strict = follow(fleet(120, 25, 5), TRUE, EFFECTS, np.ones(3))
    assert sum(len(course.alarms) for course in strict) <= 1


@pytest.mark.parametrize(
    ("name", "place", "size"), [("friction", 0, 0.4), ("gain", 1, -0.3), ("load", 3, 0.4)]
)
def test_a_change_is_found_dated_and_named(name: str, place: int, size: float) -> None:
    rng = np.random.default_rng(6)
    shift = size * np.eye(M)[place]
    robots = [(str(i), robot(rng, 30, shift, 20)) for i in range(12)]
    first = [course.alarms[0] for course in follow(robots, TRUE, EFFECTS, np.ones(3))]
    assert {alarm.effect for alarm in first} == {name}
    late = [(alarm.found - date(2026, 1, 21)).days for alarm in first]
    assert min(late) >= 0
    assert max(late) <= 2
    assert np.median([abs((alarm.since - date(2026, 1, 21)).days) for alarm in first]) == 0
    if name != "load":
        assert np.mean([alarm.size for alarm in first]) == pytest.approx(size, rel=0.15)


def test_one_change_is_one_alarm_and_a_second_one_is_found() -> None:
    rng = np.random.default_rng(7)
    days = robot(rng, 60, np.array([0.5, 0, 0, 0, 0]), 20)
    days = [
        Day(d.day, d.A, d.h + (d.A @ np.array([0, 0.4, 0, 0, 0]) if t >= 45 else 0))
        for t, d in enumerate(days)
    ]
    (course,) = follow([("a", days)], TRUE, EFFECTS, np.ones(3))
    assert [alarm.effect for alarm in course.alarms] == ["friction", "gain"]
    for alarm, true in zip(course.alarms, (date(2026, 1, 21), date(2026, 2, 15)), strict=True):
        assert alarm.earliest <= true <= alarm.latest
        assert alarm.earliest <= alarm.since <= alarm.latest


def test_robots_side_by_side_are_as_alone() -> None:
    robots = [(str(i), days[: 5 + i]) for i, (_, days) in enumerate(fleet(4, 12, 8))]
    together = follow(robots, TRUE, EFFECTS, np.ones(3))
    for one, own in zip(together, robots, strict=True):
        (alone,) = follow([own], TRUE, EFFECTS, np.ones(3))
        assert one.z == pytest.approx(alone.z, rel=1e-9, abs=1e-9)
        assert one.mean == pytest.approx(alone.mean, rel=1e-9, abs=1e-12)


def test_tests_are_widened_where_days_scatter_more_than_the_model_says() -> None:
    wild = [
        (name, [Day(d.day, d.A, d.h + 1.0 * d.A @ np.sqrt(TRUE.day) * rng.normal()) for d in days])
        for rng in [np.random.default_rng(9)]
        for name, days in fleet(30, 20, 9)
    ]
    assert inflation_of(follow(wild, TRUE, EFFECTS, np.ones(3), np.inf)).max() > 1.2
    calm: list[Course] = follow(fleet(30, 20, 10), TRUE, EFFECTS, np.ones(3), np.inf)
    assert inflation_of(calm).max() < 1.15


def test_inverse_of_badly_scaled_matrices() -> None:
    rows = np.random.default_rng(11).normal(size=(30, 4)) * np.array([1e-6, 1.0, 1e3, 1e6])
    A = (rows.T @ rows)[None]
    scale = np.sqrt(np.outer(np.diag(A[0]), np.diag(A[0])))
    assert (inverse(A)[0] @ A[0]) * (scale / np.diag(A[0])) == pytest.approx(
        np.eye(4) * scale / np.diag(A[0]), abs=1e-6 * 1e12
    )
