"""The Panda's published dynamic coefficients and feasible parameters (Gaz et al. 2019, supplement)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from dynid.robot import load_robot
from dynid.spatial import from_com
from dynid.terms import Column, RigidBody
from tests.robot_files import ROBOTS

ROBOT = ROBOTS / "panda_gaz.toml"
A4, D3, D5, A7 = 0.0825, 0.316, 0.384, 0.088
# The table rounds products of lengths.
EXACT = {
    0.0998: D3**2,
    0.09985: D3**2,
    0.1067: D3**2 + A4**2,
    0.0068: A4**2,
    0.0136: 2 * A4**2,
    0.1406: D5**2 - A4**2,
    0.0317: A4 * D5,
    0.1543: D5**2 + A4**2,
    0.0077: A7**2,
}


class Panda:
    """Columns, the 41 reliable coefficients (C theta = y), and the published feasible set."""

    def __init__(self, folder: Path):
        table = json.loads((folder / "panda_gaz" / "reference.json").read_text())
        self.columns: tuple[Column, ...] = RigidBody().columns(load_robot(ROBOT))
        self.spread = np.tile([2.5, *(0.75,) * 3, *(0.225,) * 6], 7)
        self.unknown = np.full(70, np.nan)
        names = [column.name for column in self.columns]
        # Row 2 as printed is no base parameter: m3 does not belong there.
        table["tableIII"][1]["name"] = table["tableIII"][1]["name"].replace("m3 +m4", "m4")
        kept = [row for row in table["tableIII"][:43] if row["pi_of_phat"] is not None]
        self.C = np.array([coefficients(row["name"], names) for row in kept])
        self.y = np.array([row["RE"] for row in kept])
        self.published = {name: value["p_hat"] for name, value in table["feasible_parameters"].items()}

    def feasible_set(self, c6z: float | None = None) -> np.ndarray:
        """The published set about the joint frames, (70,); c6z in place of the misprint."""
        values = self.published | ({} if c6z is None else {"c6z": c6z})
        bodies = []
        for b in range(1, 8):
            centre = [values.get(f"c{b}{axis}", 0.0) for axis in "xyz"]
            inertia = [[values[f"I{b}{''.join(sorted(i + j))}"] for j in "xyz"] for i in "xyz"]
            bodies.append(from_com(values[f"m{b}"], np.array(centre), np.array(inertia)))
        return np.concatenate(bodies)


def coefficients(formula: str, names: list[str]) -> np.ndarray:
    row = np.zeros(len(names))
    text = formula.replace("\N{MINUS SIGN}", "-").replace("\N{EN DASH}", "-").replace(" ", "")
    for sign, factor, inside in re.findall(r"([+-]?)([\d.]*)\(([^)]*)\)", text):
        _add(row, inside, names, float(sign + (factor or "1")))
    _add(row, re.sub(r"[+-]?[\d.]*\([^)]*\)", "", text), names, 1.0)
    for rounded, exact in EXACT.items():
        row[np.isclose(np.abs(row), rounded, atol=1e-9)] *= exact / rounded
    return row


def _add(row: np.ndarray, text: str, names: list[str], factor: float) -> None:
    for sign, number, body in re.findall(r"([+-]?)(\d+\.\d+)?(c\d[xyz]m\d|J\d*[xyz]{2}\d*|m\d)", text):
        digit = re.search(r"\d", body)[0]
        if body.startswith("c"):
            name = f"mc{body[2]}{digit}"
        elif body.startswith("J"):
            name = f"I{''.join(sorted(re.sub(r'[J0-9]', '', body)))}{digit}"
        else:
            name = body
        row[names.index(name)] += factor * float(sign + (number or "1"))
