"""The model object against pinocchio: times of one sample in a batch, and of one call, of inverse and forward dynamics.

    python benchmarks/dynamics.py [--robot arm7] [--samples 1000] [--repeats 60] [--headers]

One thread each; the least of many times of about a millisecond is shown, so that other programs on the machine count
little. Pinocchio is timed in a loop in C++ and call by call from Python; dynid in batches, call by call from Python,
and its exported C code in a loop in C. The loop in C++ takes a compiler, the package pin, whose library it links, and
Eigen's headers: pip install cmeel-eigen, apt install libeigen3-dev, or a folder named by EIGEN_INCLUDE. With --headers
pinocchio's templates are compiled for this processor instead (minutes). What is missing is said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import least, parser, pinocchio_model

import numpy as np
import pinocchio as pin

from dynid.base import Float
from dynid.dynamics import Dynamics
from dynid.exporters import ExportModel, write_c
from dynid.exporters.model import c_identifier
from dynid.kernel import backend
from dynid.robot import RobotModel, load_example
from dynid.spatial import from_com

SOURCE = Path(__file__).with_suffix(".cpp")
LOOP = 50_000  # calls of compiled loops
COMPILED = "PINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION"  # take the library's code where it has some
# As pinocchio's own CMake targets set them.
DEFINED = (
    "BOOST_MPL_LIMIT_LIST_SIZE=30",
    "BOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "BOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "BOOST_FUSION_INVOKE_MAX_ARITY=12",
)
C_LOOP = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int argc, char **argv) {
    long k, calls = argc > 1 ? atol(argv[1]) : 1;
    double q[N], dq[N], ddq[N], tau[N], sum = 0.0, start, a, b, best_a = 1e99, best_b = 1e99;
    int i;
    for (i = 0; i < N; ++i) { q[i] = 0.1 * i; dq[i] = 0.2 * i - 0.5; ddq[i] = 0.3; }
    for (i = 0; i < calls; i += 500) {
        start = now();
        for (k = 0; k < 500; ++k) { q[k % N] += 1e-6; ROBOT_inverse_dynamics(q, dq, ddq, tau); sum += tau[k % N]; }
        a = now();
        for (k = 0; k < 500; ++k) { q[k % N] += 1e-6; FORWARD sum += ddq[k % N]; }
        b = now();
        if (a - start < best_a) best_a = a - start;
        if (b - a < best_b) best_b = b - a;
    }
    printf("%.1f %.1f %g\\n", best_a / 500, best_b / 500, sum);
    return 0;
}
"""


def with_bodies(robot: RobotModel) -> RobotModel:
    """The robot, with a ball of 2 kg and 0.1 m, 0.1 m off the joint's axis, for a body that its description lacks."""
    ball = from_com(2.0, np.array([0.1, 0.0, 0.05]), 0.4 * 2.0 * 0.1**2 * np.eye(3))
    known = np.isfinite(robot.inertia_prior).all(axis=1)
    return replace(robot, inertia_prior=np.where(known[:, None], robot.inertia_prior, ball))


def plain(robot: RobotModel) -> Dynamics:
    """The description's bodies alone, which is what rnea and aba compute."""
    nothing = np.zeros(robot.n)
    return Dynamics(robot, robot.inertia_prior, *[nothing] * 5)


def tree_file(robot: RobotModel, path: Path) -> None:
    """The tree as numbers, for the program in C++."""
    tree = robot.tree
    numbers: list[float] = [tree.n, *tree.gravity]
    for j in range(tree.n):
        parts = (tree.axis[j], tree.rotation[j].ravel(), tree.translation[j], robot.inertia_prior[j])
        numbers += [tree.parent[j], tree.prismatic[j], *np.concatenate(parts)]
    path.write_text(" ".join(repr(float(x)) for x in numbers))


def eigen_places(prefix: Path) -> list[Path]:
    """Where Eigen's headers may be: named by hand, beside pinocchio or another Python package, the system's."""
    named = [Path(place) for place in os.environ.get("EIGEN_INCLUDE", "").split(os.pathsep) if place]
    packages = [Path(place) / "cmeel.prefix/include/eigen3" for place in sys.path]
    system = [Path("/usr/include/eigen3"), Path("/usr/local/include/eigen3")]
    return list(dict.fromkeys([*named, prefix / "include/eigen3", *packages, *system]))


def missing_parts(compiler: str | None, prefix: Path, places: list[Path]) -> list[str]:
    """What the loop in C++ cannot be built without, in words."""
    missing = [] if compiler else ["no C++ compiler (c++ or g++) on the path"]
    for header in ("pinocchio/multibody.hpp", "boost/variant.hpp"):
        if not (prefix / "include" / header).is_file():
            missing.append(f"no {header} below {prefix / 'include'} (pip install pin)")
    if not any((place / "Eigen/Core").is_file() for place in places):
        searched = ", ".join(map(str, places))
        missing.append(
            f"no Eigen/Core (pip install cmeel-eigen, or EIGEN_INCLUDE=FOLDER); searched: {searched}"
        )
    return missing


def build_cpp(folder: Path, headers: bool) -> tuple[Path | None, str]:
    """The loop in C++, or None and why there is none."""
    prefix = Path(pin.__file__).resolve().parents[4]
    compiler, places = shutil.which("c++") or shutil.which("g++"), eigen_places(prefix)
    missing = missing_parts(compiler, prefix, places)
    if compiler is None or missing:
        return None, "\n".join(missing)
    eigen = next(place for place in places if (place / "Eigen/Core").is_file())
    command = [compiler, "-std=c++17", "-O3", "-DNDEBUG", "-w", *(f"-D{name}" for name in DEFINED)]
    command += [f"-I{prefix / 'include'}", f"-I{eigen}", str(SOURCE), "-o", "theirs"]
    library = [f"-D{COMPILED}", f"-L{prefix / 'lib'}", "-lpinocchio_default", f"-Wl,-rpath,{prefix / 'lib'}"]
    command += ["-march=native"] if headers else library
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if built.returncode:
        return None, f"{' '.join(command)}\nended with status {built.returncode}:\n{built.stderr[-2000:]}"
    return folder / "theirs", ""


def build_c(model: Dynamics, folder: Path) -> Path:
    """The loop around the exported code."""
    friction = (model.rotor, model.viscous, model.coulomb, model.offset, model.width)
    exported = ExportModel(model.robot, model.inertia, *friction)
    code, name = write_c(exported, "robot.h"), c_identifier(model.robot.name)
    (folder / "robot.c").write_text(code.source)
    (folder / "robot.h").write_text(code.header)
    has_forward = f"{name}_forward_dynamics" in code.header
    loop = C_LOOP.replace("FORWARD", "ROBOT_forward_dynamics(q, dq, tau, ddq);" if has_forward else "")
    (folder / "loop.c").write_text(
        f'#define N {model.robot.n}\n#include "robot.h"\n{loop.replace("ROBOT", name)}'
    )
    gcc = shutil.which("gcc") or "gcc"
    subprocess.run(
        [gcc, "-O3", "-march=native", "robot.c", "loop.c", "-o", "ours", "-lm"], cwd=folder, check=True
    )
    return folder / "ours"


def printed(*command: object) -> list[float]:
    """The numbers that a program printed."""
    out = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    return list(map(float, out.split()))


def single(
    call: Callable[[Float, Float, Float], object], q: Float, dq: Float, third: Float
) -> Callable[[], None]:
    """Call after call, one sample each."""
    rows = list(zip(q, dq, third, strict=True))

    def work() -> None:
        for row in rows:
            call(*row)

    return work


def main() -> None:
    """Prints a table of nanoseconds."""
    options = parser(__doc__, robot="arm7", samples=1000, repeats=60, headers=False).parse_args()
    robot = with_bodies(load_example(options.robot))
    model, theirs = plain(robot), pinocchio_model(robot)
    data, T, few = theirs.createData(), options.samples, 200
    q, dq, third = np.random.default_rng(0).uniform(-1.0, 1.0, (3, T, robot.n))
    tau = np.array([pin.rnea(theirs, data, *state) for state in zip(q[:9], dq[:9], third[:9], strict=True)])
    assert np.allclose(model.inverse_dynamics(q[:9], dq[:9], third[:9]), tau, rtol=0, atol=1e-10)
    sides: dict[str, tuple[int, Callable[[], object]]] = {
        "dynid batch, inverse": (T, lambda: model.inverse_dynamics(q, dq, third)),
        "dynid batch, forward": (T, lambda: model.forward_dynamics(q, dq, third, friction=False)),
        "dynid batch, mass matrix": (T, lambda: model.mass_matrix(q)),
        "dynid batch, derivatives": (T, lambda: model.torque_derivatives(q, dq, third, friction=False)),
        "dynid one call from Python, inverse": (few, single(model.inverse_dynamics, q[:few], dq[:few], third[:few])),
        "dynid one call from Python, forward": (
            few, single(lambda a, b, c: model.forward_dynamics(a, b, c, friction=False), q[:few], dq[:few], third[:few])
        ),
        "pinocchio one call from Python, inverse": (
            few, single(lambda a, b, c: pin.rnea(theirs, data, a, b, c), q[:few], dq[:few], third[:few])
        ),
        "pinocchio one call from Python, forward": (
            few, single(lambda a, b, c: pin.aba(theirs, data, a, b, c), q[:few], dq[:few], third[:few])
        ),
    }  # fmt: skip
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree_file(robot, folder / "tree.txt")
        (cpp, why_not), c = build_cpp(folder, options.headers), build_c(model, folder)
        for _ in range(options.repeats):
            for side, (count, work) in sides.items():
                times.setdefault(side, []).append(least(work, 1, time.perf_counter) / count * 1e9)
        for side, value in zip(("inverse", "forward"), printed(c, LOOP), strict=False):
            times[f"dynid exported C, {side}"] = [value]
        if cpp is not None:
            quantities = ("inverse", "forward", "mass matrix", "derivatives")
            for side, value in zip(quantities, printed(cpp, folder / "tree.txt", LOOP), strict=False):
                times[f"pinocchio C++, {side}"] = [value]
    print(f"{robot.name}, {robot.n} joints, {backend()}, one thread, ns a sample, least of {options.repeats}")
    best = {side: min(values) for side, values in times.items()}
    for side, value in best.items():
        peer = best.get(f"pinocchio C++, {side.rsplit(', ', 1)[1]}")
        print(f"{side:<42}{value:>9.0f}" + (f"{value / peer:>8.2f} of pinocchio's C++" if peer else ""))
    if cpp is None:
        print(f"pinocchio's C++ was not timed:\n{why_not}")


if __name__ == "__main__":
    main()
