"""The test that exported C code carries: the torque of every function against states that dynid computed."""

from __future__ import annotations

import numpy as np

from dynid.exporters.model import ExportModel
from dynid.factor.base import random_states

_CHECKS = 8


def self_test(model: ExportModel, prefix: str) -> list[str]:
    """Lines of a main function for -DDYNID_TEST_MAIN; prefix: of the functions' names."""
    p, M = prefix, prefix.upper()
    samples = random_states(model.robot, _CHECKS, 7)
    q, dq, ddq = samples.q, samples.dq, samples.ddq
    table = np.concatenate([q, dq, ddq, model.torque(q, dq, ddq)], axis=1)
    rows = ["        {" + ", ".join(repr(float(x)) for x in row) + "}," for row in table]
    rows[-1] = rows[-1].rstrip(",")
    return [
        "#ifdef DYNID_TEST_MAIN",
        f"/* cc -std=c99 -DDYNID_TEST_MAIN FILE.c -lm: compares with {_CHECKS} states that dynid computed. */",
        "#include <stdio.h>",
        "",
        "int main(void)",
        "{",
        f"    static const double checks[{_CHECKS}][4 * {M}_N] = {{",
        *rows,
        "    };",
        f"    static const double zero[{M}_N];",
        f"    double tau[{M}_N], sum[{M}_N], part[{M}_N], mass[{M}_N * {M}_N];",
        "    double worst = 0.0, size = 1.0;",
        "    int k, i, j;",
        f"    for (k = 0; k < {_CHECKS}; ++k) {{",
        "        const double *q = checks[k];",
        f"        const double *dq = q + {M}_N, *ddq = q + 2 * {M}_N, *wanted = q + 3 * {M}_N;",
        f"        {p}_mass_matrix(q, mass);",
        f"        {p}_gravity(q, sum);",
        f"        {p}_coriolis(q, dq, part);",
        f"        for (i = 0; i < {M}_N; ++i) {{",
        "            sum[i] += part[i];",
        f"            for (j = 0; j < {M}_N; ++j) {{",
        f"                sum[i] += mass[i * {M}_N + j] * ddq[j];",
        "            }",
        "        }",
        f"        {p}_friction(dq, part);",
        f"        for (i = 0; i < {M}_N; ++i) {{",
        "            sum[i] += part[i] - wanted[i];",
        "            worst = fmax(worst, fabs(sum[i]));",
        "            size = fmax(size, fabs(wanted[i]));",
        "        }",
        f"        {p}_torque(q, dq, ddq, tau);",
        f"        {p}_regressor_times(q, dq, ddq, {p}_parameters, part);",
        f"        for (i = 0; i < {M}_N; ++i) {{",
        "            worst = fmax(worst, fabs(tau[i] - wanted[i]));",
        "            worst = fmax(worst, fabs(part[i] - wanted[i]));",
        "        }",
        f"        {p}_gravity(q, sum);",
        f"        {p}_inverse_dynamics(q, zero, zero, part);",
        f"        for (i = 0; i < {M}_N; ++i) {{",
        "            worst = fmax(worst, fabs(sum[i] - part[i]));",
        "        }",
        "    }",
        '    printf("greatest difference %.3e of %.3e N m\\n", worst, size);',
        "    return worst <= 1e-10 * size ? 0 : 1;",
        "}",
        "#endif",
    ]
