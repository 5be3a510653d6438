"""C99 code of thresholds for external torque, per joint and speed."""

from __future__ import annotations

from dynid.base.arrays import Float
from dynid.dynamics.observer import Thresholds


def declarations(limits: Thresholds, prefix: str) -> list[str]:
    """Lines of the header."""
    M = prefix.upper()
    return [
        "",
        "/* Thresholds: in free motion |external torque| of any joint exceeds them in the given share of samples. */",
        f"#define {M}_FALSE_ALARMS {limits.rate!r} /* this share */",
        f"#define {M}_OBSERVER_CUTOFF {limits.cutoff!r} /* Hz, of the observer: gain = 2 pi cutoff */",
        f"void {prefix}_thresholds(const double dq[{M}_N], double limit[{M}_N]);",
        "/* Joints whose external torque exceeds its threshold: crossed[i] is 0 or 1; returns their number. */",
        f"int {prefix}_pushed(const double external[{M}_N], const double dq[{M}_N], int crossed[{M}_N]);",
    ]


def functions(limits: Thresholds, prefix: str) -> list[str]:
    """Linear interpolation between values at knots of speed, constant beyond them, and dry friction near rest."""
    M, count = prefix.upper(), limits.speeds.shape[1]
    return [
        f"void {prefix}_thresholds(const double dq[{M}_N], double limit[{M}_N])",
        "{",
        *_table("speed", f"[{M}_N][{count}]", limits.speeds),
        *_table("value", f"[{M}_N][{count}]", limits.values),
        *_table("dry", f"[{M}_N]", limits.dry),
        *_table("slow", f"[{M}_N]", limits.slow),
        "    int i, k;",
        f"    for (i = 0; i < {M}_N; ++i) {{",
        "        const double v = fabs(dq[i]), *x = speed[i], *y = value[i];",
        f"        for (k = 1; k < {count - 1} && v > x[k]; ++k) {{",
        "        }",
        "        limit[i] = v <= x[0] ? y[0]",
        f"            : v >= x[{count - 1}] ? y[{count - 1}]",
        "            : y[k - 1] + (y[k] - y[k - 1]) / (x[k] - x[k - 1]) * (v - x[k - 1]);",
        "        if (v <= slow[i] && limit[i] < dry[i]) {",
        "            limit[i] = dry[i];",
        "        }",
        "    }",
        "}",
        "",
        f"int {prefix}_pushed(const double external[{M}_N], const double dq[{M}_N], int crossed[{M}_N])",
        "{",
        f"    double limit[{M}_N];",
        "    int i, count = 0;",
        f"    {prefix}_thresholds(dq, limit);",
        f"    for (i = 0; i < {M}_N; ++i) {{",
        "        crossed[i] = fabs(external[i]) > limit[i];",
        "        count += crossed[i];",
        "    }",
        "    return count;",
        "}",
        "",
    ]


def _table(name: str, shape: str, values: Float) -> list[str]:
    rows = [", ".join(repr(float(x)) for x in row) for row in values.reshape(len(values), -1)]
    if values.ndim == 1:
        return [f"    static const double {name}{shape} = {{{', '.join(rows)}}};"]
    return [
        f"    static const double {name}{shape} = {{",
        *(f"        {{{row}}}," for row in rows),
        "    };",
    ]
