"""The hierarchy and the tests on it: variances found, changes named, false alarms as rare as stated."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest

from dynid.base import Float
from dynid.fleet.drift import BOUND, DAYS_A_YEAR, FALSE_ALARM, LEAST_DAYS, Effect, calibrate, follow
from dynid.fleet.pool import Day, Hierarchy, State, fit_hierarchy, fit_scatter, inverse, without_day

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
    z = np.concatenate([course.z for course in follow(fleet(80, 25, 3), TRUE, EFFECTS)])
    assert z.std(axis=0) == pytest.approx(np.ones(3), abs=0.06)
    assert z.mean(axis=0) == pytest.approx(np.zeros(3), abs=0.08)
    # Independent from day to day, which the sums of Bayes factors stand on.
    lagged = np.mean(
        [np.mean(c.z[1:] * c.z[:-1], axis=0) for c in follow(fleet(80, 25, 4), TRUE, EFFECTS)],
        axis=0,
    )
    assert np.abs(lagged).max() < 0.08


def test_false_alarms_are_as_rare_as_stated() -> None:
    """With a threshold for 20 % in 25 days, at most so many robots have one; the stated rate is the same law."""
    courses = follow(fleet(120, 25, 5), TRUE, EFFECTS, threshold=25 / 0.2)
    share = np.mean([bool(course.alarms) for course in courses])
    assert share <= 0.2
    assert FALSE_ALARM <= 0.01
    assert DAYS_A_YEAR == 365
    strict = follow(fleet(120, 25, 5), TRUE, EFFECTS)
    assert sum(len(course.alarms) for course in strict) <= 1


@pytest.mark.parametrize(
    ("name", "place", "size"), [("friction", 0, 0.4), ("gain", 1, -0.3), ("load", 3, 0.4)]
)
def test_a_change_is_found_dated_and_named(name: str, place: int, size: float) -> None:
    rng = np.random.default_rng(6)
    shift = size * np.eye(M)[place]
    robots = [(str(i), robot(rng, 30, shift, 20)) for i in range(12)]
    first = [course.alarms[0] for course in follow(robots, TRUE, EFFECTS)]
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
    (course,) = follow([("a", days)], TRUE, EFFECTS)
    assert [alarm.effect for alarm in course.alarms] == ["friction", "gain"]
    for alarm, true in zip(course.alarms, (date(2026, 1, 21), date(2026, 2, 15)), strict=True):
        assert alarm.earliest <= true <= alarm.latest
        assert alarm.earliest <= alarm.since <= alarm.latest


def test_robots_side_by_side_are_as_alone() -> None:
    robots = [(str(i), days[: 5 + i]) for i, (_, days) in enumerate(fleet(4, 12, 8))]
    together = follow(robots, TRUE, EFFECTS)
    for one, own in zip(together, robots, strict=True):
        (alone,) = follow([own], TRUE, EFFECTS)
        assert one.z == pytest.approx(alone.z, rel=1e-9, abs=1e-9)
        assert one.mean == pytest.approx(alone.mean, rel=1e-9, abs=1e-12)


def ordinary_days(kind: str, rng: np.random.Generator, days: int, count: int) -> Float:
    """Day effects of variance 1 (days, count): Student's t, an autoregression or normal."""
    if kind.startswith("t"):
        freedom = float(kind[1:])
        return np.asarray(rng.standard_t(freedom, (days, count)) * np.sqrt((freedom - 2.0) / freedom))
    effects = rng.normal(size=(days, count))
    if kind.startswith("ar"):
        memory = float(kind[2:]) / 10.0
        for day in range(1, days):
            effects[day] = memory * effects[day - 1] + np.sqrt(1.0 - memory**2) * effects[day]
    return effects


def ordinary_fleet(kind: str, count: int, days: int, seed: int) -> tuple[list[list[Day]], dict[int, int]]:
    """A fleet on ordinary days; the first quantity of every third robot steps by five day-to-day deviations."""
    first_days, fleet_days = {}, []
    for r in range(count):
        rng = np.random.default_rng([seed, r])
        usual = TRUE.mean + np.sqrt(TRUE.serial) * rng.normal(size=M)
        effects = ordinary_days(kind, rng, days, M)
        if r % 3 == 0:
            first_days[r] = int(rng.integers(days // 2, days - 8))
        robot_days = []
        for t in range(days):
            x = usual + np.sqrt(TRUE.day) * effects[t]
            x[0] += 0.25 * (r in first_days and t >= first_days[r])
            if kind == "season":
                x[0] += 0.5 * np.sin(2 * np.pi * (t + 30) / 365)
            rows = rng.normal(size=(40, M)) * 10.0
            h = rows.T @ (rows @ x + rng.normal(size=40))
            robot_days.append(Day(date(2026, 1, 1) + timedelta(days=t), rows.T @ rows, h))
        fleet_days.append(robot_days)
    return fleet_days, first_days


@pytest.mark.parametrize("kind", ["normal", "t3", "ar5", "ar9", "season"])
def test_ordinary_days_raise_no_alarm_and_a_step_does(kind: str) -> None:
    robots, first_days = ordinary_fleet(kind, 30, 60, 21)
    daily = np.array([True, True, True, False, False])
    hierarchy = fit_hierarchy([days[::3] for days in robots], 2, daily)
    calibration = calibrate(robots, hierarchy, EFFECTS)
    assert calibration.threshold >= BOUND
    assert calibration.rate <= FALSE_ALARM * (1.0 + 1e-9)
    courses = follow(_named(robots), hierarchy, EFFECTS, calibration.scatter, calibration.threshold)
    soon = false = 0
    for r, course in enumerate(courses):
        days = [(alarm.found - date(2026, 1, 1)).days for alarm in course.alarms]
        begin = first_days.get(r, 60)
        false += sum(day < begin for day in days)
        soon += any(begin <= day < begin + 5 for day in days)
    assert false == 0
    assert soon >= 0.8 * len(first_days)


def _named(robots: list[list[Day]]) -> list[tuple[str, list[Day]]]:
    return [(str(i), days) for i, days in enumerate(robots)]


@pytest.mark.parametrize(("kind", "tails", "memory"), [("normal", 30, 0.0), ("t3", 4, 0.0), ("ar5", 30, 0.5)])
def test_tails_and_memory_of_days_are_estimated(kind: str, tails: float, memory: float) -> None:
    rng = np.random.default_rng(22)
    values = ordinary_days(kind, rng, 60, 40).T[:, :, None]
    gaps = np.ones((40, 60))
    scatter = fit_scatter(values, np.ones_like(values), gaps, np.ones(1), 0.0)
    assert (scatter.freedom >= tails) == (tails == 30)
    assert scatter.memory == pytest.approx([memory])
    if kind == "normal":
        assert scatter.scale == pytest.approx([0.96], abs=0.05)
        assert (scatter.walk < 0.01).all()


def test_few_days_are_not_calibrated_and_only_widen_the_tests() -> None:
    robots = [days for _, days in fleet(5, 14, 9)]
    few = calibrate(robots, TRUE, EFFECTS)
    assert few.days < LEAST_DAYS
    assert few.threshold == BOUND
    assert (few.scatter.scale < 1.5).all()
    rng = np.random.default_rng(9)
    wild = [
        [Day(d.day, d.A, d.h + 3.0 * d.A @ np.sqrt(TRUE.day) * rng.normal()) for d in days] for days in robots
    ]
    assert calibrate(wild, TRUE, EFFECTS).scatter.scale.max() > 2.0


def test_a_calibration_repeats_to_the_bit() -> None:
    robots = [days for _, days in fleet(20, 30, 12)]
    first, second = (calibrate(robots, TRUE, EFFECTS) for _ in range(2))
    assert (first.threshold, first.rate, first.days) == (second.threshold, second.rate, second.days)
    assert first.days >= LEAST_DAYS


def test_one_deviating_day_is_no_change() -> None:
    rng = np.random.default_rng(13)
    days = robot(rng, 30)
    shift = np.array([0.8, 0, 0, 0, 0])
    days[20] = Day(days[20].day, days[20].A, days[20].h + days[20].A @ shift)
    (course,) = follow([("a", days)], TRUE, EFFECTS)
    assert course.alarms == ()


def test_inverse_of_badly_scaled_matrices() -> None:
    rows = np.random.default_rng(11).normal(size=(30, 4)) * np.array([1e-6, 1.0, 1e3, 1e6])
    A = (rows.T @ rows)[None]
    scale = np.sqrt(np.outer(np.diag(A[0]), np.diag(A[0])))
    assert (inverse(A)[0] @ A[0]) * (scale / np.diag(A[0])) == pytest.approx(
        np.eye(4) * scale / np.diag(A[0]), abs=1e-6 * 1e12
    )
