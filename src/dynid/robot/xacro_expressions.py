"""Safe evaluation of xacro expressions, node by node: numbers, text, lists, tables and functions that return them.

The package xacro passes expressions to Python's `eval`, where a generator's frame or a string's `format` gives access
to every module. Here nothing is compiled: the syntax tree is checked against a list of allowed nodes and evaluated by
the functions below, so that an expression cannot reach a module or an attribute of a Python object.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

from dynid.base.errors import Place, RefusedError
from dynid.base.files import Budget

Lookup = Callable[[str], Any]

# Python's functions, without those that inspect objects (type, vars, getattr) or read files.
FUNCTIONS = (
    "abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "filter", "float", "frozenset", "int",
    "isinstance", "len", "list", "map", "max", "min", "ord", "range", "repr", "reversed", "round", "set", "slice",
    "sorted", "str", "sum", "tuple", "zip",
)  # fmt: skip
# Functions in xacro's documentation; those that open files follow dynid's rules.
XACRO_FUNCTIONS = (
    "abs_filename", "arg", "dotify", "error", "fatal", "load_yaml", "message", "print_location", "tokenize", "warning",
)  # fmt: skip
# Without `format` and `format_map`, which read attributes named in the text.
_OF_TEXT = (
    "capitalize", "count", "endswith", "find", "index", "isdigit", "join", "lower", "lstrip", "replace", "rstrip",
    "split", "startswith", "strip", "title", "upper", "zfill",
)  # fmt: skip
_METHODS: Mapping[type, tuple[str, ...]] = {
    str: _OF_TEXT,
    list: ("count", "index"),
    tuple: ("count", "index"),
    dict: ("get", "items", "keys", "values"),
}
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Not: operator.not_, ast.Invert: operator.invert,
}  # fmt: skip
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right, ast.NotIn: lambda left, right: left not in right,
}  # fmt: skip
_CONSTANTS = (bool, int, float, complex, str, type(None))
_WORDS = {
    ast.Lambda: "a lambda", ast.GeneratorExp: "a generator", ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension", ast.DictComp: "a comprehension", ast.NamedExpr: "an assignment",
    ast.Await: "an await", ast.JoinedStr: "a formatted text", ast.Starred: "a starred argument",
}  # fmt: skip
# Functions of `math` whose integers outgrow any memory.
_COUNTING = ("comb", "factorial", "perm")
# Characters of an expression in a message.
_SHOWN = 60
# Bytes of the budget that a node, an item of a list, and a bit of an integer take: arithmetic of long integers takes
# far more time than memory.
_NODE, _ITEM, _BIT = 64, 8, 64


def plain_functions() -> dict[str, Any]:
    """Functions of Python and `math` that an expression may call, and constants of `math`, by name."""
    of_math = {name: value for name, value in vars(math).items() if not name.startswith("_")}
    return {name: value for name, value in of_math.items() if name not in _COUNTING} | {
        name: getattr(builtins, name) for name in FUNCTIONS
    }


class Expressions:
    """Evaluator of expressions.

    Parameters
    ----------
    functions : sequence of callable
        Functions that may be called.
    tables : tuple of type
        Types whose keys are written like attributes (`arm.mass`).
    budget : Budget
        Memory of all values, and so time.

    """

    def __init__(self, functions: Sequence[Any], tables: tuple[type, ...], budget: Budget) -> None:
        self.functions = {id(function): function for function in functions}
        self.tables: Any = tables
        self.budget = budget

    def evaluate(self, text: str, lookup: Lookup, place: Place) -> Any:
        """Evaluate an expression.

        Parameters
        ----------
        text : str
            The expression.
        lookup : callable
            Value of a name; raises KeyError for an unknown name.
        place : Place
            For messages.

        Returns
        -------
        object

        Raises
        ------
        RefusedError
            For anything but data and allowed functions.
        SyntaxError
            If the text is not an expression.

        """
        tree = ast.parse(text.strip(), mode="eval")
        evaluation = _Evaluation(self, text.strip(), lookup, place)
        evaluation.check(tree)
        return evaluation.value(tree.body)


class _Evaluation:
    """Evaluation of one expression."""

    def __init__(self, rules: Expressions, text: str, lookup: Lookup, place: Place) -> None:
        self.rules, self.text, self.lookup, self.place = rules, text, lookup, place

    def check(self, tree: ast.AST) -> None:
        """Refuse nodes that are not allowed, before anything is evaluated."""
        for node in ast.walk(tree):
            if isinstance(node, ast.expr) and type(node) not in _NODES:
                raise self.refused(_WORDS.get(type(node), f"'{type(node).__name__}'"))
            if isinstance(node, ast.Constant) and not isinstance(node.value, _CONSTANTS):
                raise self.refused(f"a constant of type {type(node.value).__name__}")
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                raise self.refused(f"the attribute '{node.attr}'")
            if isinstance(node, ast.Name) and node.id.startswith("__"):
                raise self.refused(f"the name '{node.id}'")
            if isinstance(node, ast.operator) and type(node) not in _BINARY:
                raise self.refused("a product of matrices")

    def value(self, node: ast.expr) -> Any:
        value = _NODES[type(node)](self, node)
        self.spend(_NODE + _size(value))
        return value

    def spend(self, size: float) -> None:
        self.rules.budget.spend(int(size), f"the expression '{self.shown}'")

    @property
    def shown(self) -> str:
        return self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}..."

    def refused(self, subject: str) -> RefusedError:
        return RefusedError(
            "xacro-expression",
            found=f"{subject} in the expression '{self.shown}'",
            expected="numbers, text, arithmetic, conditions, and functions of math and xacro",
            do="if you trust the file, expand it with xacro: xacro FILE > robot.urdf",
            place=self.place,
        )

    def usable(self, value: Any, name: str) -> Any:
        """Return a value that was looked up; refuse functions that may not be called, even if only passed on."""
        if callable(value) and id(value) not in self.rules.functions:
            raise self.refused(f"the function '{name}'")
        return value

    def constant(self, node: ast.Constant) -> Any:
        return node.value

    def name(self, node: ast.Name) -> Any:
        try:
            value = self.lookup(node.id)
        except KeyError as error:
            raise NameError(f"name '{node.id}' is not defined") from error
        return self.usable(value, node.id)

    def attribute(self, node: ast.Attribute) -> Any:
        table = self.value(node.value)
        if not isinstance(table, self.rules.tables):
            raise self.refused(f"the attribute '{node.attr}'")
        if node.attr not in table:
            raise NameError(f"name '{node.attr}' is not defined")
        return self.usable(table[node.attr], node.attr)

    def call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute):
            function = self.method(node.func)
        else:
            function = self.value(node.func)
            if id(function) not in self.rules.functions:
                raise self.refused("a call of something that is not an allowed function")
        arguments = [self.value(argument) for argument in node.args]
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.refused("a starred argument")
            named[keyword.arg] = self.value(keyword.value)
        if isinstance(node.func, ast.Attribute):
            self.spend(_size_of_text(node.func.attr, getattr(function, "__self__", None), arguments))
        return self.usable(function(*arguments, **named), "a function's result")

    def method(self, node: ast.Attribute) -> Any:
        subject = self.value(node.value)
        if isinstance(subject, self.rules.tables) and node.attr in subject:
            function = self.usable(subject[node.attr], node.attr)
            if not callable(function):
                raise self.refused("a call of something that is not an allowed function")
            return function
        for kind, methods in _METHODS.items():
            if isinstance(subject, kind) and node.attr in methods:
                return getattr(subject, node.attr)
        raise self.refused(f"the attribute '{node.attr}'")

    def binary(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        self.spend(_size_of_operation(node.op, left, right))
        return _BINARY[type(node.op)](left, right)

    def unary(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](self.value(node.operand))

    def boolean(self, node: ast.BoolOp) -> Any:
        value: Any = None
        for operand in node.values:
            value = self.value(operand)
            if bool(value) == isinstance(node.op, ast.Or):
                break
        return value

    def comparison(self, node: ast.Compare) -> Any:
        left: Any = self.value(node.left)
        result: Any = True
        for kind, operand in zip(node.ops, node.comparators, strict=True):
            right = self.value(operand)
            result = _COMPARED[type(kind)](left, right)
            if not result:
                break
            left = right
        return result

    def condition(self, node: ast.IfExp) -> Any:
        return self.value(node.body) if self.value(node.test) else self.value(node.orelse)

    def subscript(self, node: ast.Subscript) -> Any:
        values = self.value(node.value)
        return self.usable(values[self.value(node.slice)], "[...]")

    def section(self, node: ast.Slice) -> slice:
        bounds = (node.lower, node.upper, node.step)
        return slice(*(None if bound is None else self.value(bound) for bound in bounds))

    def list(self, node: ast.List) -> Any:
        return [self.value(item) for item in node.elts]

    def tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.value(item) for item in node.elts)

    def table(self, node: ast.Dict) -> Any:
        made: dict[Any, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                raise self.refused("a starred argument")
            made[self.value(key)] = self.value(item)
        return made


def _size(value: Any) -> float:
    """Bytes of a value, those of the items of a list apart."""
    if isinstance(value, int):
        return value.bit_length() * _BIT
    if isinstance(value, str):
        return 2 * len(value)  # once more in the text that it becomes part of
    return len(value) * _ITEM if isinstance(value, Sized) else 0.0


def _size_of_operation(kind: ast.operator, left: Any, right: Any) -> float:
    """Bytes of the result of an operation, if it may be far larger than its operands; 0 otherwise."""
    if isinstance(kind, ast.Mult):
        for values, count in ((left, right), (right, left)):
            if isinstance(values, Sized) and isinstance(count, int):
                return max(count, 0) * _size(values)
    if isinstance(kind, ast.Pow) and isinstance(left, int) and isinstance(right, int):
        return max(right, 0) * _size(left)
    if isinstance(kind, ast.LShift) and isinstance(right, int):
        return max(right, 0) * _BIT
    if isinstance(kind, ast.Mod) and isinstance(left, str):
        # Widths of a format; a star takes its width from the values.
        widths = [float(digits) for digits in re.findall(r"\d+", left)]
        given = right if isinstance(right, tuple) else (right,)
        return sum(widths) + sum(abs(value) for value in given if "*" in left and isinstance(value, int))
    return 0.0


def _size_of_text(method: str, text: Any, arguments: Sequence[Any]) -> float:
    """Bytes of the result of a method of text, if it may be far larger than the text; 0 otherwise."""
    if not isinstance(text, str) or not arguments:
        return 0.0
    if method == "zfill" and isinstance(arguments[0], int):
        return max(arguments[0], 0)
    if method == "join" and isinstance(arguments[0], Sized):
        return len(text) * len(arguments[0])
    if method == "replace" and len(arguments) > 1 and all(isinstance(item, str) for item in arguments[:2]):
        return (text.count(arguments[0]) + 1) * len(arguments[1])
    return 0.0


_NODES: Mapping[type[ast.expr], Callable[[_Evaluation, Any], Any]] = {
    ast.Constant: _Evaluation.constant,
    ast.Name: _Evaluation.name,
    ast.Attribute: _Evaluation.attribute,
    ast.Call: _Evaluation.call,
    ast.BinOp: _Evaluation.binary,
    ast.UnaryOp: _Evaluation.unary,
    ast.BoolOp: _Evaluation.boolean,
    ast.Compare: _Evaluation.comparison,
    ast.IfExp: _Evaluation.condition,
    ast.Subscript: _Evaluation.subscript,
    ast.Slice: _Evaluation.section,
    ast.List: _Evaluation.list,
    ast.Tuple: _Evaluation.tuple,
    ast.Dict: _Evaluation.table,
}
