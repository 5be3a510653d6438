"""Arithmetic written down instead of carried out: expressions with constants folded and common parts shared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field

from dynid.base.records import dataclass

# Sines of right angles and the like: what is this close to a whole number is one.
_DUST = 4e-16
_LINE = 90


@dataclass(frozen=True)
class Node:
    """One operation of a graph: its kind and the numbers of its operands; `text` names inputs, `value` constants."""

    kind: str
    operands: tuple[int, ...] = ()
    text: str = ""
    value: float = 0.0


@dataclass
class Graph:
    """Builds expressions over shared nodes; zeros and ones vanish, equal expressions become one."""

    nodes: list[Node] = field(default_factory=list)
    index: dict[Node, int] = field(default_factory=dict)

    def constant(self, value: float) -> int:
        """A number; dust beside a whole number is swept away."""
        number = float(value)
        whole = float(round(number)) if abs(number) < 1e6 else number
        if abs(number - whole) < _DUST:
            number = whole
        return self._node(Node("constant", value=number + 0.0))

    def variable(self, text: str) -> int:
        """An input, as it is written in the target language."""
        return self._node(Node("variable", text=text))

    def call(self, function: str, a: int) -> int:
        """A function of one argument."""
        return self._node(Node("call", (a,), function))

    def neg(self, a: int) -> int:
        """Minus a."""
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

    Parts used once stand within their expression, parts used more often get a name; the rest is left out.
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
        return f"-{_at_least(operands[0], _PRODUCT)}", _SUM
    if node.kind == "mul":
        return f"{_at_least(operands[0], _PRODUCT)} * {_at_least(operands[1], _ATOM)}", _PRODUCT
    sign = "+" if node.kind == "add" else "-"
    return f"{operands[0][0]} {sign} {_at_least(operands[1], _PRODUCT)}", _SUM


def _at_least(operand: tuple[str, int], rank: int) -> str:
    text, own = operand
    return text if own >= rank else f"({text})"


def _live(graph: Graph, outputs: Iterable[int]) -> list[int]:
    live: set[int] = set()
    stack = list(outputs)
    while stack:
        one = stack.pop()
        if one not in live:
            live.add(one)
            stack.extend(graph.nodes[one].operands)
    return sorted(live)
