"""What yarpdatadumper records: ports with clocks of their own, as one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputError
from dynid.log import open_table


def port(folder: Path, name: str, t: np.ndarray, lines: list[str], kind: str = "Bottle") -> None:
    at = folder / name
    at.mkdir(parents=True)
    (at / "info.log").write_text(f"Type: {kind};\n[1700000000.1] /robot/{name}:o [connected]\n")
    rows = [f"{k} {stamp:.6f} {line}" for k, (stamp, line) in enumerate(zip(t, lines, strict=True))]
    (at / "data.log").write_text("\n".join([*rows, ""]))


def numbers(values: np.ndarray) -> list[str]:
    return [" ".join(f"{x:.9f}" for x in row) for row in values]


def curve(t: np.ndarray) -> np.ndarray:
    return np.stack([np.sin(t - 1.7e9), np.cos(2 * (t - 1.7e9))], axis=1)


def test_ports_with_clocks_of_their_own_are_brought_to_one(tmp_path: Path) -> None:
    """Linear interpolation misses a curve by h^2/8 of its second derivative at most."""
    rng = np.random.default_rng(3)
    slow = 1.7e9 + np.arange(0, 8, 0.01) + rng.uniform(0, 0.002, 800)
    fast = 1.7e9 - 0.5 + np.arange(0, 8, 0.004)
    port(tmp_path, "left_leg/state", slow, numbers(curve(slow)))
    port(tmp_path, "left_leg/torque", fast, numbers(-3 * curve(fast)))
    port(tmp_path, "camera", slow[:5], ["x"] * 5, "Image")
    table = open_table(tmp_path)
    names = (
        "time",
        "left_leg/position[0]",
        "left_leg/position[1]",
        "left_leg/torque[0]",
        "left_leg/torque[1]",
    )
    assert table.column_names == names
    batch = next(iter(table.batches(names, 10_000)))
    t, *columns = (np.asarray(batch[name]) for name in names)
    np.testing.assert_allclose(t, slow[slow <= fast[-1]], atol=1e-6)
    np.testing.assert_allclose(np.stack(columns[:2], axis=1), curve(t), atol=1e-5)
    np.testing.assert_allclose(np.stack(columns[2:], axis=1), -3 * curve(t), atol=3 * 4 * 0.004**2 / 8 + 1e-5)
    assert any("camera" in one for one in table.left_out)


def test_extended_states_have_the_names_of_their_lists(tmp_path: Path) -> None:
    t = 1.7e9 + 0.01 * np.arange(50)
    lists = 10.0 * np.arange(11)[None, :, None] + curve(t)[:, None, :]
    lines = [" ".join(f"({x:.6f} {y:.6f}) [ok]" for x, y in row) for row in lists]
    port(tmp_path / "dump", "arm/stateExt", t, lines)
    for folder, part in ((tmp_path / "dump", "arm/"), (tmp_path / "dump" / "arm" / "stateExt", "")):
        table = open_table(folder)
        batch = next(iter(table.batches(table.column_names, 100)))
        np.testing.assert_allclose(batch[f"{part}jointPosition[1]"], curve(t)[:, 1], atol=1e-6)
        np.testing.assert_allclose(batch[f"{part}torque[0]"], 60 + curve(t)[:, 0], atol=1e-6)
        assert f"{part}current[1]" in table.column_names


def test_a_pause_of_one_port_is_not_filled(tmp_path: Path) -> None:
    t = 1.7e9 + 0.01 * np.arange(400)
    slow, fast = t[::2], t[(t < t[150]) | (t > t[250])]
    port(tmp_path, "state", slow, numbers(curve(slow)))
    port(tmp_path, "torque", fast, numbers(curve(fast)))
    table = open_table(tmp_path)
    names = ("time", "torque[0]")
    batch = next(iter(table.batches(names, 1000)))
    inside = (np.asarray(batch["time"]) > t[150]) & (np.asarray(batch["time"]) < t[249])
    assert np.isnan(np.asarray(batch["torque[0]"])[inside]).all()
    assert np.isfinite(np.asarray(batch["torque[0]"])[~inside]).mean() > 0.95


def test_a_dump_without_numbers_is_refused_in_words(tmp_path: Path) -> None:
    t = 1.7e9 + 0.01 * np.arange(50)
    port(tmp_path, "speech", t, ["hello"] * 50)
    with pytest.raises(InputError, match="ports have no numbers"):
        open_table(tmp_path)
