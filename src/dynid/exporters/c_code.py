"""C99 code of one robot: straight-line recursions with the robot's constants inserted, and a self-test of torques."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import RefusedError
from dynid.base.records import dataclass
from dynid.dynamics.observer import Thresholds
from dynid.exporters import c_motion, c_thresholds
from dynid.exporters.c_motion import self_test
from dynid.exporters.expression import Graph, Recursion, share, statements
from dynid.exporters.model import ExportModel, c_comment, c_identifier, reduced
from dynid.terms.exports import MotionBasis, c_sign

# Most links: compile time grows with the straight-line code of each.
MAX_BODIES = 64


@dataclass(frozen=True)
class CFiles:
    """Source and header."""

    source: str
    header: str


def write_c(model: ExportModel, header_name: str, thresholds: Thresholds | None = None) -> CFiles:
    """Write the C99 code of a model.

    Parameters
    ----------
    model : ExportModel
        The model.
    header_name : str
        Name under which the source includes its header.
    thresholds : Thresholds, optional
        Thresholds of external torque that the code contains too.

    Returns
    -------
    CFiles
        Source and header.

    Raises
    ------
    RefusedError
        For robots of more than 64 links, whose straight-line code would be too long to compile.

    """
    robot = model.robot
    if robot.n_bodies > MAX_BODIES:
        raise RefusedError(
            "c-size",
            found=f"{robot.n_bodies} links",
            expected=f"at most {MAX_BODIES}, since the code is written out link by link",
        )
    return _Writer(model, header_name, thresholds).files()


class _Writer:
    def __init__(self, model: ExportModel, header_name: str, thresholds: Thresholds | None) -> None:
        self.thresholds = thresholds
        self.model, self.robot, self.header_name = model, model.robot, header_name
        self.prefix = c_identifier(self.robot.name)
        self.macro = self.prefix.upper()
        self.n, self.nb = self.robot.n, self.robot.n_bodies
        self.shares = [(c, k) for c in self.model.curves for k in range(len(c.coefficients))]
        self.tilts = () if model.tilt is None else tuple(model.tilt.values.tolist())
        self.springs = [value for spring in model.springs for value in (spring.stiffness, spring.preload)]
        further = len(self.shares) + len(model.mixed) + len(self.tilts) + len(self.springs)
        self.count = 10 * self.nb + 4 * self.n + further
        self.inertia, self.rotor = reduced(model)

    def files(self) -> CFiles:
        functions = [
            self._rigid("inverse_dynamics", ("q", "dq", "ddq"), gravity=True),
            self._rigid("gravity", ("q",), gravity=True),
            self._rigid("coriolis", ("q", "dq"), gravity=False),
            self._mass_matrix(),
            self._friction(),
            self._torque(),
            self._regressor_times(),
        ]
        if self.model.distance.any():
            functions.append(self._friction_with_memory())
        source = [
            *self._title("Dynamics"),
            f'#include "{self.header_name}"',
            "",
            "#include <math.h>",
            "",
            *self._parameters(),
            *(line for function in functions for line in (*function, "")),
            *c_motion.functions(self.model, self.prefix),
            *(() if self.thresholds is None else c_thresholds.functions(self.thresholds, self.prefix)),
            *self_test(self.model, self.prefix),
        ]
        return CFiles("\n".join(source) + "\n", "\n".join(self._header()) + "\n")

    def _title(self, subject: str) -> list[str]:
        lines = [f"/* {subject} of the robot '{c_comment(self.robot.name)}', written by dynid.", " *"]
        lines += [f" * q[{j}]: {c_comment(name)}" for j, name in enumerate(self.robot.joint_names)]
        lines += [
            " *",
            " * SI units; torque at the joints, positive in the direction of positive q.",
            *(f" * Left out of the identified model: {c_comment(name)}" for name in self.model.left_out),
            " */",
        ]
        return lines

    def _header(self) -> list[str]:
        p, M = self.prefix, self.macro
        inputs = f"const double q[{M}_N], const double dq[{M}_N], const double ddq[{M}_N]"
        guard = f"{M}_DYNAMICS_H"
        return [
            *self._title("Dynamics"),
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            f"#define {M}_N {self.n} /* joints */",
            f"#define {M}_NB {self.nb} /* links */",
            f"#define {M}_NP {self.count} /* parameters of {p}_regressor_times */",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            "/* Identified parameters: ten per link (m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about its joint",
            " * frame), then rotor inertia, viscous friction, Coulomb friction and offset, one per joint each, then",
            " * coefficients of friction curves and of coupled drives, the tilts of the base, and for each spring its",
            " * stiffness and preload; the preload contains the offset of its joint. */",
            f"extern const double {p}_parameters[{M}_NP];",
            "",
            "/* M(q) ddq + C(q, dq) dq + g(q), rotors and springs included, without friction. */",
            f"void {p}_inverse_dynamics({inputs}, double tau[{M}_N]);",
            "/* g(q), springs included. */",
            f"void {p}_gravity(const double q[{M}_N], double tau[{M}_N]);",
            "/* C(q, dq) dq. */",
            f"void {p}_coriolis(const double q[{M}_N], const double dq[{M}_N], double tau[{M}_N]);",
            "/* M(q), rotors included, row by row. */",
            f"void {p}_mass_matrix(const double q[{M}_N], double M[{M}_N * {M}_N]);",
            "/* Viscous and Coulomb friction, friction curves and offset. */",
            f"void {p}_friction(const double dq[{M}_N], double tau[{M}_N]);",
            *self._memory_declaration(),
            "/* Inverse dynamics and friction together. */",
            f"void {p}_torque({inputs}, double tau[{M}_N]);",
            "/* Y(q, dq, ddq) pi for any parameters pi, friction included. */",
            f"void {p}_regressor_times({inputs}, const double pi[{M}_NP], double tau[{M}_N]);",
            *c_motion.declarations(p),
            *(() if self.thresholds is None else c_thresholds.declarations(self.thresholds, p)),
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            "#endif",
        ]

    def _parameters(self) -> list[str]:
        m, n = self.model, self.n
        lines = [f"const double {self.prefix}_parameters[{self.macro}_NP] = {{"]
        for body, pi in zip(self.robot.body_names, m.inertia, strict=True):
            lines.append(f"    {', '.join(_number(x) for x in pi)}, /* {c_comment(body)} */")
        for label, values in (
            ("rotors", m.rotor),
            ("viscous", m.viscous),
            ("Coulomb", m.coulomb),
            ("offset", m.offset),
        ):
            lines.append(f"    {', '.join(_number(values[j]) for j in range(n))}, /* {label} */")
        for curve, k in self.shares:
            joint = c_comment(self.robot.joint_names[curve.joint])
            lines.append(f"    {_number(curve.coefficients[k])}, /* {curve.term.name} of {joint} */")
        lines += [f"    {_number(part.value)}, /* {part.term}, {part.basis.value} */" for part in m.mixed]
        lines += [f"    {_number(value)}, /* tilt */" for value in self.tilts]
        for spring in m.springs:
            joints = " + ".join(c_comment(self.robot.joint_names[j]) for j in spring.joints)
            lines.append(
                f"    {_number(spring.stiffness)}, {_number(spring.preload)}, /* {spring.term} of {joints} */"
            )
        return [*lines, "};", ""]

    def _graph(self) -> tuple[Graph, list[int], Recursion]:
        g = Graph()
        q = [g.variable(f"q[{j}]") for j in range(self.n)]
        return g, q, Recursion(self.robot.tree, g, self._tree(g, q, self.robot.projection_offset))

    def _tree(self, g: Graph, values: Sequence[int], offset: Float | None = None) -> list[int]:
        # Mimic joints: q_tree = projection q + offset.
        tree = []
        for i in range(self.nb):
            total = g.constant(0.0 if offset is None else float(offset[i]))
            for j in range(self.n):
                factor = g.constant(float(self.robot.projection[i, j]))
                total = g.add(total, g.mul(factor, values[j]))
            tree.append(total)
        return tree

    def _joint(self, g: Graph, tau: Sequence[int]) -> list[int]:
        columns = [[g.constant(float(x)) for x in self.robot.projection[:, j]] for j in range(self.n)]
        return [g.dot(column, tau) for column in columns]

    def _rigid(self, name: str, arguments: tuple[str, ...], gravity: bool) -> list[str]:
        g, _, recursion = self._graph()
        zero = [g.constant(0.0)] * self.n
        dq = [g.variable(f"dq[{j}]") for j in range(self.n)] if "dq" in arguments else zero
        ddq = [g.variable(f"ddq[{j}]") for j in range(self.n)] if "ddq" in arguments else zero
        inertia = [[g.constant(float(x)) for x in pi] for pi in self.inertia]
        ground = recursion.v.vector(self.robot.gravity if gravity else np.zeros(3))
        tau = self._joint(g, recursion.torque(self._tree(g, dq), self._tree(g, ddq), ground, inertia))
        tau = [
            g.add(t, g.mul(g.constant(float(Ia)), a)) for t, Ia, a in zip(tau, self.rotor, ddq, strict=True)
        ]
        if gravity:
            self._add_tilt(recursion, tau, [g.constant(value) for value in self.tilts])
            self._add_springs(g, tau, [g.constant(value) for value in self.springs])
        if "ddq" in arguments:
            self._add_mixed(g, tau, (MotionBasis.ACCELERATION,))
        return self._function(g, name, arguments, [(f"tau[{j}]", t) for j, t in enumerate(tau)])

    def _mass_matrix(self) -> list[str]:
        g, _, recursion = self._graph()
        inertia = [[g.constant(float(x)) for x in pi] for pi in self.inertia]
        tree = recursion.mass_matrix(inertia)
        n, J = self.n, self.robot.projection
        M = [[g.constant(float(self.rotor[i]) if i == j else 0.0) for j in range(n)] for i in range(n)]
        for (a, b), entry in tree.items():
            for i in range(n):
                for j in range(n):
                    factor = float(J[a, i] * J[b, j] + (J[b, i] * J[a, j] if a != b else 0.0))
                    if factor:
                        M[i][j] = g.add(M[i][j], g.mul(g.constant(factor), entry))
        for part in self.model.mixed:
            if part.basis is MotionBasis.ACCELERATION:
                contribution = part.value * np.outer(part.out, part.weights)
                for i, j in zip(*np.nonzero(contribution), strict=True):
                    M[i][j] = g.add(M[i][j], g.constant(float(contribution[i, j])))
        outputs = [(f"M[{n * i + j}]", M[i][j]) for i in range(n) for j in range(n)]
        return self._function(
            g, "mass_matrix", ("q",), outputs, result="M", size=f"{self.macro}_N * {self.macro}_N"
        )

    def _friction(self) -> list[str]:
        m, g = self.model, Graph()
        total = []
        for j in range(self.n):
            dq = g.variable(f"dq[{j}]")
            tau = g.mul(g.constant(float(m.viscous[j])), dq)
            tau = g.add(tau, g.mul(g.constant(float(m.coulomb[j])), g.variable(self._sign(j))))
            for curve, k in self.shares:
                if curve.joint == j:
                    basis_value = g.variable(curve.c_texts(f"dq[{j}]")[k])
                    tau = g.add(tau, g.mul(g.constant(float(curve.coefficients[k])), basis_value))
            total.append(g.add(tau, g.constant(float(m.offset[j]))))
        self._add_mixed(g, total, (MotionBasis.SPEED, MotionBasis.SIGN, MotionBasis.ONE))
        return self._function(g, "friction", ("dq",), [(f"tau[{j}]", t) for j, t in enumerate(total)])

    def _add_mixed(
        self, g: Graph, tau: list[int], bases: Sequence[MotionBasis], first: int | None = None
    ) -> None:
        # first: index of their first parameter in pi; None = the identified values.
        for i, part in enumerate(self.model.mixed):
            value = g.constant(part.value) if first is None else g.variable(f"pi[{first + i}]")
            if part.basis in bases:
                contribution = g.mul(value, share(part, g))
                for j in np.flatnonzero(part.out):
                    tau[j] = g.add(tau[j], g.mul(g.constant(float(part.out[j])), contribution))

    def _add_tilt(self, recursion: Recursion, tau: list[int], values: Sequence[int]) -> None:
        # Weight of the nominal links under the change of gravity by the tilt, and the pattern of the first link.
        tilt, g = self.model.tilt, recursion.g
        if tilt is None:
            return
        change = tilt.gravity(self.robot)
        ground = [g.dot([g.constant(float(x)) for x in change[:, k]], values[:2]) for k in range(3)]
        bodies = [[g.constant(float(x)) for x in pi] for pi in tilt.bodies(self.robot)]
        still = [g.constant(0.0)] * self.nb
        for j, weight in enumerate(self._joint(g, recursion.torque(still, still, ground, bodies))):
            tau[j] = g.add(tau[j], weight)
        for value, pattern in zip(values[2:], ("cos", "sin"), strict=False):
            tau[0] = g.add(tau[0], g.mul(value, g.call(pattern, g.variable("q[0]"))))

    def _add_springs(self, g: Graph, tau: list[int], values: Sequence[int]) -> None:
        # values: stiffness and preload of each spring in turn.
        for i, spring in enumerate(self.model.springs):
            q = [g.variable(f"q[{j}]") for j in spring.joints]
            weights = [g.constant(float(spring.weights[j])) for j in spring.joints]
            force = g.add(g.mul(values[2 * i], g.dot(weights, q)), values[2 * i + 1])
            for j, weight in zip(spring.joints, weights, strict=True):
                tau[j] = g.add(tau[j], g.mul(weight, force))

    def _sign(self, j: int) -> str:
        return c_sign(f"dq[{j}]", float(self.model.width[j]))

    def _memory_declaration(self) -> list[str]:
        p, M = self.prefix, self.macro
        if not self.model.distance.any():
            return []
        return [
            "/* The same with memory: Coulomb friction follows a state z, which builds up over a distance and keeps",
            " * its value at rest. z starts as zeros and is updated from positions q_before to q. */",
            f"void {p}_friction_with_memory(const double q_before[{M}_N], const double q[{M}_N],",
            f"    const double dq[{M}_N], double z[{M}_N], double tau[{M}_N]);",
        ]

    def _friction_with_memory(self) -> list[str]:
        m, p, M = self.model, self.prefix, self.macro
        tables = [
            f"    static const double {name}[{M}_N] = {{{', '.join(_number(x) for x in values)}}};"
            for name, values in (("distance", m.distance), ("coulomb", m.coulomb), ("width", m.width))
        ]
        return [
            f"void {p}_friction_with_memory(const double q_before[{M}_N], const double q[{M}_N],",
            f"    const double dq[{M}_N], double z[{M}_N], double tau[{M}_N])",
            "{",
            *tables,
            "    int i;",
            f"    {p}_friction(dq, tau);",
            f"    for (i = 0; i < {M}_N; ++i) {{",
            "        if (distance[i] > 0.0) {",
            "            z[i] = fmax(-1.0, fmin(1.0, z[i] + (q[i] - q_before[i]) / distance[i]));",
            "            tau[i] += coulomb[i] * (z[i] - tanh(dq[i] / width[i]));",
            "        }",
            "    }",
            "}",
        ]

    def _torque(self) -> list[str]:
        p, M = self.prefix, self.macro
        return [
            f"void {p}_torque({self._arguments(('q', 'dq', 'ddq'))}, double tau[{M}_N])",
            "{",
            f"    double friction[{M}_N];",
            "    int i;",
            f"    {p}_inverse_dynamics(q, dq, ddq, tau);",
            f"    {p}_friction(dq, friction);",
            f"    for (i = 0; i < {M}_N; ++i) {{",
            "        tau[i] += friction[i];",
            "    }",
            "}",
        ]

    def _regressor_times(self) -> list[str]:
        g, _, recursion = self._graph()
        dq = [g.variable(f"dq[{j}]") for j in range(self.n)]
        ddq = [g.variable(f"ddq[{j}]") for j in range(self.n)]
        inertia = [[g.variable(f"pi[{10 * i + k}]") for k in range(10)] for i in range(self.nb)]
        ground = recursion.v.vector(self.robot.gravity)
        tau = self._joint(g, recursion.torque(self._tree(g, dq), self._tree(g, ddq), ground, inertia))
        for j in range(self.n):
            total = tau[j]
            of_joint = [g.variable(f"pi[{10 * self.nb + k * self.n + j}]") for k in range(4)]
            basis = (ddq[j], dq[j], g.variable(self._sign(j)), g.constant(1.0))
            total = g.add(total, g.dot(of_joint, basis))
            for i, (curve, k) in enumerate(self.shares):
                if curve.joint == j:
                    factor = g.variable(f"pi[{10 * self.nb + 4 * self.n + i}]")
                    total = g.add(total, g.mul(factor, g.variable(curve.c_texts(f"dq[{j}]")[k])))
            tau[j] = total
        first = 10 * self.nb + 4 * self.n + len(self.shares)
        self._add_mixed(g, tau, tuple(MotionBasis), first)
        first += len(self.model.mixed)
        self._add_tilt(recursion, tau, [g.variable(f"pi[{first + i}]") for i in range(len(self.tilts))])
        first += len(self.tilts)
        self._add_springs(g, tau, [g.variable(f"pi[{first + i}]") for i in range(len(self.springs))])
        outputs = [(f"tau[{j}]", t) for j, t in enumerate(tau)]
        return self._function(g, "regressor_times", ("q", "dq", "ddq", "pi"), outputs)

    def _arguments(self, names: Sequence[str]) -> str:
        return ", ".join(f"const double {a}[{self.macro}_{'NP' if a == 'pi' else 'N'}]" for a in names)

    def _function(
        self,
        g: Graph,
        name: str,
        arguments: tuple[str, ...],
        outputs: list[tuple[str, int]],
        result: str = "tau",
        size: str = "",
    ) -> list[str]:
        body, inputs = statements(g, outputs)
        unused = [a for a in arguments if not any(_reads(text, a) for text in inputs)]
        return [
            f"void {self.prefix}_{name}({self._arguments(arguments)}, double {result}[{size or self.macro + '_N'}])",
            "{",
            *(f"    (void){a};" for a in unused),
            *body,
            "}",
        ]


def _reads(text: str, argument: str) -> bool:
    return re.search(rf"(?<![a-z]){argument}\[", text) is not None


def _number(value: float) -> str:
    return repr(float(value))
