"""Tables 1 to 6 of Zollo et al. 2014 as printed, and their misprints."""

from __future__ import annotations

from decimal import Decimal

# Table 1: the 14 parameters as combinations, real and estimated values.
TABLE_1: tuple[tuple[str, dict[tuple[str, int], float], float, float], ...] = (
    ("K1", {("K", 0): 1}, 3000.0, 3000.79),
    ("K2", {("K", 1): 1}, 1800.0, 1799.79),
    ("m1 - 4 Izz1 + 4 Izz2", {("m", 0): 1, ("Izz", 0): -4, ("Izz", 1): 4}, -30.8333, -30.8352),
    ("m2 - 4 Izz2", {("m", 1): 1, ("Izz", 1): -4}, 6.5667, 6.5670),
    ("cx1 + 2 Izz1", {("cx", 0): 1, ("Izz", 0): 2}, 22.6333, 22.6345),
    ("cy1", {("cy", 0): 1}, 0.0, -1.04e-5),
    ("cx2 + 2 Izz2", {("cx", 1): 1, ("Izz", 1): 2}, -0.7833, -0.7835),
    ("cy2", {("cy", 1): 1}, 0.0, 3.18e-6),
    ("Y1", {("Y", 0): 1}, 21.18, 21.1446),
    ("Y2", {("Y", 1): 1}, 12.10, 12.1036),
    ("fs1", {("fs", 0): 1}, 0.3302, 0.1016),
    ("fs2", {("fs", 1): 1}, 0.3576, 0.1249),
    ("fv1", {("fv", 0): 1}, 0.1434, 0.1288),
    ("fv2", {("fv", 1): 1}, 0.1391, 0.1389),
)
UNITS = {"K": "N m/rad", "m": "kg", "c": "kg m", "I": "kg m^2", "Y": "kg m^2", "f": "N m"}
# Table 2: signal-to-noise ratio and normalised mean error.
TABLE_2 = {20: 3.84e3, 70: 44.50, 80: 4.73, 100: 0.157, 200: 0.111}
# Tables 3 to 6: real and estimated values of pi_1 to pi_84.
_TABLE_3 = (
    "2000 2000 2000 2000 2000 2000 0.10 17.4 4.80 0.82 0.34 0.09",
    "1999.3 1999.8 1999.6 1999.9 1999.3 2000.1 0.0985 17.41 4.7988 0.819 0.339 0.0889",
)
_TABLE_4 = (
    "2000 0 0 -6.3301 0.1044 3.9585 -0.0974 -0.0677 0.336 0 0.0156 0 0 0 0 0 0 0.0029",
    "-0.25E-4 -0.22E-4 -0.15E-5 -6.33087 0.10425 3.95835 -0.09769 -0.0679 0.33587 -0.00015 0.015 -0.12E-4 -0.21E-4 "
    "-0.15E-4 -0.25E-4 -0.18E-4 -0.25E-4 0.0026",
)
_TABLE_5 = (
    "0 0.35 0.2E-4 0 0 0 1.031 3.727 2.842 0.037 1.440 -0.023 0.090 0.111 0.015 -0.0013 0.0068 0.0047 0.0021 0.0013 "
    "0.0021 0 0 0 0.3E-4 0.4E-4 0.3E-4 0 0 0 0.0002 0.0002 4E-05 0 0 0",
    "-0.15E-5 0.34 -0.0015 -0.1E-4 -0.1E-5 -0.9E-5 1.016 3.714 2.838 0.033 1.435 -0.038 0.077 0.098 0.5E-3 -0.0026 "
    "0.0055 0.0034 0.0008 0 0.0008 -0.0013 -0.0013 -0.0013 0.1E-4 0.9E-4 0.9E-4 -0.1E-4 -0.1E-4 -0.1E-5 -0.0011 "
    "-0.0011 0.12E-4 0.13E-4 -0.13E-4 -0.11E-4",
)
_TABLE_6 = (
    "0.0002 0.0002 0.0002 3.3E-5 3.3E-5 3.0E-5 0.395 0.126 0.132 0.0112 0.0093 0.0039 0.0014 0.0008 0.0014 7.12E-5 "
    "8.26E-5 3.67E-5",
    "0.0252 0.0252 0.0252 0.25E-4 0.25E-4 0.15E-4 0.396 0.127 0.147 0.0118 0.0140 0.0040 0.0006 0.0005 0.0017 2.01E-5 "
    "5.95E-5 1.42E-5",
)
PUMA_REAL, PUMA_ESTIMATED = (
    tuple(word for table in (_TABLE_3, _TABLE_4, _TABLE_5, _TABLE_6) for word in table[i].split())
    for i in (0, 1)
)
# First and last of the 84 numbers in each table, and their meaning.
PUMA_TABLES = {
    3: (1, 12, "stiffness, N m/rad, and mass, kg"),
    4: (13, 30, "first moments, kg m"),
    5: (31, 66, "inertia about the frames' origins, kg m^2"),
    6: (67, 84, "rotors, kg m^2, Coulomb friction, N m, and viscous friction, N m s/rad"),
}
# Real values that must be misprints: by number, the right value and the reason.
FIXES = {
    13: ("0", "the first moment of link 1 about its own frame; 2000 is a stiffness that slipped over"),
    33: ("2E-4", "rotor 2, which link 1 carries, is 2e-4 in Table 6"),
    55: ("3E-4", "the source's body data say 3e-4; a digit slipped"),
    56: ("4E-4", "the source's body data say 4e-4; a digit slipped"),
    57: ("3E-4", "the source's body data say 3e-4; a digit slipped"),
    72: ("3.3E-5", "rotors 4 to 6 of the source are alike"),
}


def last_digit(word: str) -> float:
    """Return one unit of the last printed digit; a printed 0 counts as exact.

    Prints both round and cut off: 0.037 stands for 0.03798.
    """
    value = Decimal(word)
    return 1e-9 if value == 0 else float(Decimal(1).scaleb(int(value.as_tuple().exponent)))
