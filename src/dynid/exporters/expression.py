"""Expressions instead of numbers: arithmetic with constants evaluated and common parts shared, written as C code."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.kernel.tree import Tree
from dynid.robot.model import RobotModel
from dynid.spatial.algebra import skew
from dynid.terms.exports import Mixed, MotionBasis, c_sign

# Sines of right angles are not exact: a constant this close to a whole number is that number.
_DUST = 4e-16
# Characters of an expression above which it gets a statement of its own.
_LINE = 90


@dataclass(frozen=True)
class Node:
    """One operation of a graph, with the numbers of its operands; `text` names inputs, `value` constants."""

    kind: str
    operands: tuple[int, ...] = ()
    text: str = ""
    value: float = 0.0


@dataclass
class Graph:
    """Builder of expressions over shared nodes: zeros and ones vanish, and equal expressions become one node."""

    nodes: list[Node] = field(default_factory=list)
    index: dict[Node, int] = field(default_factory=dict)

    def constant(self, value: float) -> int:
        """A number; rounding errors next to a whole number are removed."""
        number = float(value)
        whole = float(round(number)) if abs(number) < 1e6 else number
        if abs(number - whole) < _DUST:
            number = whole
        return self._node(Node("constant", value=number + 0.0))

    def variable(self, text: str) -> int:
        """An input, written as in the target language."""
        return self._node(Node("variable", text=text))

    def call(self, function: str, a: int) -> int:
        """A function of one argument."""
        return self._node(Node("call", (a,), function))

    def neg(self, a: int) -> int:
        """Negative of a."""
        node = self.nodes[a]
        if node.kind == "constant":
            return self.constant(-node.value)
        if node.kind == "neg":
            return node.operands[0]
        if node.kind == "sub":
            return self.sub(node.operands[1], node.operands[0])
        return self._node(Node("neg", (a,)))

    def add(self, a: int, b: int) -> int:
        """Sum a + b."""
        x, y = self.nodes[a], self.nodes[b]
        if x.kind == y.kind == "constant":
            return self.constant(x.value + y.value)
        if self._is(a, 0.0):
            return b
        if self._is(b, 0.0):
            return a
        if y.kind == "neg":
            return self.sub(a, y.operands[0])
        if x.kind == "neg":
            return self.sub(b, x.operands[0])
        return self._node(Node("add", (min(a, b), max(a, b))))

    def sub(self, a: int, b: int) -> int:
        """Difference a - b."""
        x, y = self.nodes[a], self.nodes[b]
        if x.kind == y.kind == "constant":
            return self.constant(x.value - y.value)
        if a == b:
            return self.constant(0.0)
        if self._is(b, 0.0):
            return a
        if self._is(a, 0.0):
            return self.neg(b)
        if y.kind == "neg":
            return self.add(a, y.operands[0])
        if x.kind == "neg":
            return self.neg(self.add(x.operands[0], b))
        return self._node(Node("sub", (a, b)))

    def mul(self, a: int, b: int) -> int:
        """Product a b."""
        x, y = self.nodes[a], self.nodes[b]
        if y.kind == "constant":
            a, b, x, y = b, a, y, x
        if x.kind == "constant":
            if y.kind == "constant":
                return self.constant(x.value * y.value)
            if x.value == 0.0:
                return a
            if x.value == 1.0:
                return b
            if x.value == -1.0:
                return self.neg(b)
            if y.kind == "mul" and self.nodes[y.operands[0]].kind == "constant":
                return self.mul(self.constant(x.value * self.nodes[y.operands[0]].value), y.operands[1])
            if y.kind == "neg":
                return self.mul(self.constant(-x.value), y.operands[0])
            return self._node(Node("mul", (a, b)))
        if x.kind == "neg":
            return self.neg(self.mul(x.operands[0], b))
        if y.kind == "neg":
            return self.neg(self.mul(a, y.operands[0]))
        return self._node(Node("mul", (min(a, b), max(a, b))))

    def dot(self, a: Sequence[int], b: Sequence[int]) -> int:
        """Sum of products."""
        total = self.constant(0.0)
        for x, y in zip(a, b, strict=True):
            total = self.add(total, self.mul(x, y))
        return total

    def _is(self, a: int, value: float) -> bool:
        node = self.nodes[a]
        return node.kind == "constant" and node.value == value

    def _node(self, node: Node) -> int:
        if node not in self.index:
            self.index[node] = len(self.nodes)
            self.nodes.append(node)
        return self.index[node]


def statements(graph: Graph, outputs: Sequence[tuple[str, int]]) -> tuple[list[str], set[str]]:
    """C statements that compute the outputs (target, node), and the inputs that they read.

    Nodes that are used once are written inside their expression, others get a name, and unused nodes are omitted.
    """
    live = _live(graph, (node for _, node in outputs))
    uses = Counter(operand for i in live for operand in graph.nodes[i].operands)
    uses.update(node for _, node in outputs)
    texts: dict[int, tuple[str, int]] = {}
    lines: list[str] = []
    inputs: set[str] = set()
    for i in live:
        node = graph.nodes[i]
        text, rank = _text(node, [texts[k] for k in node.operands])
        if node.kind == "variable":
            inputs.add(node.text)
        elif node.kind != "constant" and (uses[i] > 1 or len(text) > _LINE):
            lines.append(f"    const double t{i} = {text};")
            text, rank = f"t{i}", _ATOM
        texts[i] = text, rank
    lines += [f"    {target} = {texts[node][0]};" for target, node in outputs]
    return lines, inputs


# Precedence of operators, which decides about brackets.
_SUM, _PRODUCT, _ATOM = 1, 2, 3
_NAME = re.compile(r"[a-z]+(\[\d+\]|\([^()]*\))")


def _text(node: Node, operands: list[tuple[str, int]]) -> tuple[str, int]:
    if node.kind == "constant":
        return repr(node.value), _ATOM if node.value >= 0 else _SUM
    if node.kind == "variable":
        # Inputs may be expressions of the target language.
        return node.text, _ATOM if _NAME.fullmatch(node.text) else _SUM
    if node.kind == "call":
        return f"{node.text}({operands[0][0]})", _ATOM
    if node.kind == "neg":
        return f"-{_bracketed(operands[0], _PRODUCT)}", _SUM
    if node.kind == "mul":
        return f"{_bracketed(operands[0], _PRODUCT)} * {_bracketed(operands[1], _ATOM)}", _PRODUCT
    sign = "+" if node.kind == "add" else "-"
    return f"{operands[0][0]} {sign} {_bracketed(operands[1], _PRODUCT)}", _SUM


def _bracketed(operand: tuple[str, int], rank: int) -> str:
    text, operand_rank = operand
    return text if operand_rank >= rank else f"({text})"


def _live(graph: Graph, outputs: Iterable[int]) -> list[int]:
    live: set[int] = set()
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node not in live:
            live.add(node)
            stack.extend(graph.nodes[node].operands)
    return sorted(live)


# Torque that depends on the motion of several joints: coupled drives, and motors that move several joints.


def share(part: Mixed, g: Graph) -> int:
    """The basis of a torque that several joints cause, as an expression of dq[...] or ddq[...]."""
    if part.basis is MotionBasis.ONE:
        return g.constant(1.0)
    if part.basis is MotionBasis.SIGN:
        total = " + ".join(f"({float(x)!r}) * dq[{j}]" for j, x in enumerate(part.weights) if x)
        return g.variable(c_sign(f"({total})", part.width))
    name = "ddq" if part.basis is MotionBasis.ACCELERATION else "dq"
    return g.dot(
        [g.constant(float(x)) for x in part.weights],
        [g.variable(f"{name}[{j}]") for j in range(len(part.weights))],
    )


@dataclass(frozen=True, eq=False)
class Motor:
    """A motor that moves several joints, theta_m = weights . q, with its inertia and friction on the motor side."""

    weights: Float
    inertia: float = 0.0
    viscous: float = 0.0
    coulomb: float = 0.0


_OF_MOTOR = {MotionBasis.ACCELERATION: "inertia", MotionBasis.SPEED: "viscous", MotionBasis.SIGN: "coulomb"}


def motors_of(parts: Sequence[Mixed]) -> tuple[list[Motor], list[Mixed]]:
    """Split torques that several joints cause into motors and the rest.

    Parameters
    ----------
    parts : sequence of Mixed
        Torques that depend on several joints.

    Returns
    -------
    motors : list of Motor
        Motors that explain parts as their inertia or friction.
    rest : list of Mixed
        Parts that do not belong to a motor.

    """
    motors: dict[tuple[float, ...], Motor] = {}
    left = []
    for part in parts:
        key = tuple(part.weights.tolist())
        if part.basis in _OF_MOTOR and np.array_equal(part.out, part.weights):
            motor, name = motors.get(key, Motor(part.weights)), _OF_MOTOR[part.basis]
            motors[key] = replace(motor, **{name: getattr(motor, name) + part.value})
        else:
            left.append(part)
    return list(motors.values()), left


def on_one_branch(robot: RobotModel, weights: Float) -> bool:
    """Whether the joints (n,) that a motor moves are on one path from the base to a link."""
    bodies = robot.independent_bodies[np.flatnonzero(weights)]
    return set(bodies.tolist()) <= set(robot.tree.paths[int(bodies.max())])


def motor_faults(motors: Sequence[Motor]) -> tuple[str, ...]:
    """Negative inertia or friction of motors, one sentence each."""
    return tuple(
        f"motor {i}: {label} {value:.4g}"
        for i, motor in enumerate(motors, 1)
        for label, value in (
            ("rotor inertia", motor.inertia),
            ("viscous friction", motor.viscous),
            ("coulomb friction", motor.coulomb),
        )
        if value < 0
    )


# Newton-Euler and composite-body recursions as expressions, with the robot's constants inserted.
#
# Source: Khalil and Dombre 2002, customised Newton-Euler; Featherstone 2008, composite rigid bodies.

Vector = list[int]
Matrix = list[list[int]]


@dataclasses.dataclass
class Algebra:
    """Vectors and matrices of expressions."""

    g: Graph

    def vector(self, values: Float) -> Vector:
        """A constant vector."""
        return [self.g.constant(float(value)) for value in values]

    def zero(self) -> Vector:
        """The zero vector."""
        return self.vector(np.zeros(3))

    def plus(self, a: Vector, b: Vector) -> Vector:
        """Sum a + b."""
        return [self.g.add(x, y) for x, y in zip(a, b, strict=True)]

    def scaled(self, a: Vector, factor: int) -> Vector:
        """The vector a times a number."""
        return [self.g.mul(x, factor) for x in a]

    def cross(self, a: Vector, b: Vector) -> Vector:
        """Cross product a x b."""
        g = self.g
        return [g.sub(g.mul(a[i], b[j]), g.mul(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1))]

    def times(self, A: Matrix, b: Vector) -> Vector:
        """Product A b."""
        return [self.g.dot(row, b) for row in A]

    def transposed_times(self, A: Matrix, b: Vector) -> Vector:
        """Product A' b."""
        return [self.g.dot([row[k] for row in A], b) for k in range(3)]


@dataclasses.dataclass
class Motion:
    """Motion of a link in its own frame: w rad/s, dw rad/s^2, a m/s^2 of its origin, U = [dw] + [w][w], and w w'."""

    w: Vector
    dw: Vector
    a: Vector
    U: Matrix
    ww: dict[tuple[int, int], int]


@dataclasses.dataclass
class Recursion:
    """Newton-Euler and composite-body recursions of one tree; q: positions of its joints, (nb,) expressions."""

    tree: Tree
    g: Graph
    q: Sequence[int]

    def __post_init__(self) -> None:
        self.v = Algebra(self.g)
        self.placements = [self._placement(i) for i in range(self.tree.n)]
        self.axes = [self.v.vector(self.tree.axis[i]) for i in range(self.tree.n)]

    def torque(
        self, dq: Sequence[int], ddq: Sequence[int], gravity: Vector, inertia: Sequence[Sequence[int]]
    ) -> list[int]:
        """Torque of every joint of the tree by the Newton-Euler recursion.

        `dq`, `ddq`: velocities and accelerations of the joints, as nodes; `gravity`: gravity in the base frame, as
        nodes; `inertia` (nb, 10): inertial parameters of each link, as nodes. Result: torques, as nodes.
        """
        v, n = self.v, self.tree.n
        motions: list[Motion] = []
        ground = self._motion(v.zero(), v.zero(), v.scaled(gravity, self.g.constant(-1.0)))
        forces: list[Vector] = []
        moments: list[Vector] = []
        for i in range(n):
            parent = int(self.tree.parent[i])
            motions.append(self._moved(i, ground if parent < 0 else motions[parent], dq[i], ddq[i]))
            force, moment = self._wrench(motions[i], inertia[i])
            forces.append(force)
            moments.append(moment)
        tau = [0] * n
        for i in reversed(range(n)):
            tau[i] = self._along(i, forces[i], moments[i])
            parent = int(self.tree.parent[i])
            if parent >= 0:
                force, moment = self._to_parent(i, forces[i], moments[i])
                forces[parent] = v.plus(forces[parent], force)
                moments[parent] = v.plus(moments[parent], moment)
        return tau

    def mass_matrix(self, inertia: Sequence[Sequence[int]]) -> dict[tuple[int, int], int]:
        """Entries (i, j) of the mass matrix of the tree where i is an ancestor of j, or j itself."""
        v, n = self.v, self.tree.n
        composite = [list(parameters) for parameters in inertia]
        for i in reversed(range(n)):
            parent = int(self.tree.parent[i])
            if parent >= 0:
                moved = self._inertia_in_parent(i, composite[i])
                composite[parent] = [self.g.add(a, b) for a, b in zip(composite[parent], moved, strict=True)]
        entries = {}
        for j in range(n):
            m, h, I = composite[j][0], composite[j][1:4], _symmetric(composite[j][4:])
            axis = self.axes[j]
            if self.tree.prismatic[j]:
                force, moment = v.scaled(axis, m), v.cross(h, axis)
            else:
                force, moment = v.cross(axis, h), v.times(I, axis)
            i = j
            entries[j, j] = self._along(j, force, moment)
            while self.tree.parent[i] >= 0:
                force, moment = self._to_parent(i, force, moment)
                i = int(self.tree.parent[i])
                entries[i, j] = self._along(i, force, moment)
        return entries

    def _placement(self, i: int) -> tuple[Matrix, Vector]:
        # R = R_fixed (a a' + cos (1 - a a') + sin [a]), p = p_fixed; or R_fixed and p_fixed + R_fixed a q.
        g, v, axis = self.g, self.v, np.asarray(self.tree.axis[i])
        fixed, p = np.asarray(self.tree.rotation[i]), v.vector(self.tree.translation[i])
        if self.tree.prismatic[i]:
            slide = v.scaled(v.vector(fixed @ axis), self.q[i])
            return [v.vector(row) for row in fixed], v.plus(p, slide)
        along = np.outer(axis, axis)
        c, s = g.call("cos", self.q[i]), g.call("sin", self.q[i])
        parts = (fixed @ along, fixed @ (np.eye(3) - along), fixed @ skew(axis))
        R = [
            [
                g.add(
                    g.add(g.constant(parts[0][r, k]), g.mul(g.constant(parts[1][r, k]), c)),
                    g.mul(g.constant(parts[2][r, k]), s),
                )
                for k in range(3)
            ]
            for r in range(3)
        ]
        return R, p

    def _moved(self, i: int, parent: Motion, dq: int, ddq: int) -> Motion:
        v, axis = self.v, self.axes[i]
        R, p = self.placements[i]
        w = v.transposed_times(R, parent.w)
        dw = v.transposed_times(R, parent.dw)
        a = v.transposed_times(R, v.plus(parent.a, v.times(parent.U, p)))
        push = v.scaled(axis, ddq)
        turn = v.cross(w, v.scaled(axis, dq))
        if self.tree.prismatic[i]:
            a = v.plus(v.plus(a, push), v.plus(turn, turn))
        else:
            dw = v.plus(v.plus(dw, turn), push)
            w = v.plus(w, v.scaled(axis, dq))
        return self._motion(w, dw, a)

    def _motion(self, w: Vector, dw: Vector, a: Vector) -> Motion:
        g = self.g
        ww = {(i, j): g.mul(w[i], w[j]) for i in range(3) for j in range(i, 3)}
        x, y, z = ww[0, 0], ww[1, 1], ww[2, 2]
        U = [
            [g.neg(g.add(y, z)), g.sub(ww[0, 1], dw[2]), g.add(ww[0, 2], dw[1])],
            [g.add(ww[0, 1], dw[2]), g.neg(g.add(x, z)), g.sub(ww[1, 2], dw[0])],
            [g.sub(ww[0, 2], dw[1]), g.add(ww[1, 2], dw[0]), g.neg(g.add(x, y))],
        ]
        return Motion(w, dw, a, U, ww)

    def _wrench(self, b: Motion, pi: Sequence[int]) -> tuple[Vector, Vector]:
        # f = m a + U h, n = I dw + w x I w + h x a, with I dw + w x I w written in U.
        g, v, U = self.g, self.v, b.U
        m, h = pi[0], list(pi[1:4])
        xx, xy, yy, xz, yz, zz = pi[4:]
        force = v.plus(v.scaled(b.a, m), v.times(U, h))
        spin = [
            g.dot(
                (xx, g.sub(zz, yy), g.neg(xy), xz, yz),
                (b.dw[0], b.ww[1, 2], U[2][0], U[1][0], g.sub(U[1][1], U[2][2])),
            ),
            g.dot(
                (yy, g.sub(xx, zz), g.neg(yz), xy, xz),
                (b.dw[1], b.ww[0, 2], U[0][1], U[2][1], g.sub(U[2][2], U[0][0])),
            ),
            g.dot(
                (zz, g.sub(yy, xx), g.neg(xz), yz, xy),
                (b.dw[2], b.ww[0, 1], U[1][2], U[0][2], g.sub(U[0][0], U[1][1])),
            ),
        ]
        return force, v.plus(spin, v.cross(h, b.a))

    def _along(self, i: int, force: Vector, moment: Vector) -> int:
        return self.g.dot(self.axes[i], force if self.tree.prismatic[i] else moment)

    def _to_parent(self, i: int, force: Vector, moment: Vector) -> tuple[Vector, Vector]:
        R, p = self.placements[i]
        turned = self.v.times(R, force)
        return turned, self.v.plus(self.v.times(R, moment), self.v.cross(p, turned))

    def _inertia_in_parent(self, i: int, pi: Sequence[int]) -> list[int]:
        g, v = self.g, self.v
        R, p = self.placements[i]
        m, h, I = pi[0], list(pi[1:4]), _symmetric(pi[4:])
        Rh = v.times(R, h)
        RI = [[g.dot(R[r], [I[k][c] for k in range(3)]) for c in range(3)] for r in range(3)]
        half = v.plus(Rh, v.scaled(p, m))
        moved = []
        # I' = R I R' - [p][Rh] - [Rh][p] - m [p][p]; -[a][b] = (a.b) 1 - b a'.
        pair = g.add(g.dot(p, Rh), g.dot(p, half))
        for r, c in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)):
            entry = g.sub(g.dot(RI[r], R[c]), g.add(g.mul(half[r], p[c]), g.mul(p[r], Rh[c])))
            moved.append(g.add(entry, pair) if r == c else entry)
        return [m, *half, *moved]


def _symmetric(six: Sequence[int]) -> Matrix:
    xx, xy, yy, xz, yz, zz = six
    return [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
