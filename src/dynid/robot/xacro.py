"""Expansion of xacro files by the package xacro, with their expressions evaluated by dynid."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, Place, RefusedError, ResourceError
from dynid.base.files import Budget, read_bytes
from dynid.robot.meshes import file_of_package, find_package
from dynid.robot.options import Reading
from dynid.robot.xacro_expressions import FUNCTIONS, XACRO_FUNCTIONS, Expressions, plain_functions
from dynid.robot.xml import MAX_BYTES, Element, parse

_PREFIX = "xacro:"
_NAMESPACE = "xmlns:xacro"
_EXPRESSION = re.compile(r"\$[{(]")
# Greedy, so that the last "package://" counts: names in a package's file are joined to its folder, which has one, too.
_BY_PACKAGE = re.compile(r".*package://([^/]+)/(.*)")
_YAML = (".yaml", ".yml")
_MANIFEST = "package.xml"
_ENDING = ".xacro"
# Bytes of the budget that the expansion of a macro takes, for its time: 16,384 in a small file.
_MACRO_BYTES = 1 << 14
# The package keeps its state in module variables.
_ONE_AT_A_TIME = Lock()


def is_xacro(root: Element) -> bool:
    """Whether an element needs expansion: it has an element of xacro, or declares xacro and has an expression."""
    return first_xacro(root) is not None


def first_xacro(root: Element) -> Element | None:
    """Return the first element that needs expansion; None if there is none."""
    declared = _NAMESPACE in root.attributes
    return next(
        (
            element
            for element in root.walk()
            if element.tag.startswith(_PREFIX)
            or (declared and any(_EXPRESSION.search(value) for value in element.attributes.values()))
        ),
        None,
    )


def require_asked(root: Element, path: Path, reading: Reading) -> None:
    """Raise RefusedError for xacro in a file that is not named `.xacro`, unless the user asked to expand it.

    A user who opens a URDF expects data, so expressions are only evaluated if the file name or the user asks for it.
    """
    element = first_xacro(root)
    if element is None or path.suffix.lower() == _ENDING or reading.expands:
        return
    raise RefusedError(
        "xacro-unasked",
        found=f"xacro (<{element.tag}>) in a file that is not named {_ENDING}",
        expected="a file without xacro",
        do="if you trust the file, add --xacro (Python: xacro=True) or rename it to end in .xacro",
        place=Place(file=str(path), line=element.line),
    )


# Expansions of this process, by file and arguments.
_EXPANDED: dict[tuple[Path, tuple[tuple[str, str], ...]], Element] = {}


def expanded_before(path: Path, reading: Reading) -> Element | None:
    """Return the earlier expansion of a file in this process; None if it was not expanded."""
    return _EXPANDED.get(_key(path, reading))


def _key(path: Path, reading: Reading) -> tuple[Path, tuple[tuple[str, str], ...]]:
    return path.resolve(), tuple(sorted(reading.arguments.items()))


def expanded(root: Element, path: Path, reading: Reading, diagnostics: Diagnostics) -> Element:
    """Expand a xacro file; the elements of the result have no line numbers.

    Parameters
    ----------
    root : Element
        Root element of the file.
    path : Path
        Of the file.
    reading : Reading
        Arguments of xacro and folders of packages.
    diagnostics : Diagnostics
        Receives warnings of xacro as notes.

    Returns
    -------
    Element

    Raises
    ------
    ResourceError
        Without the package xacro.
    InputError
        If the file does not expand, and for arguments that it does not have.
    RefusedError
        For expressions that are more than data and arithmetic, and for included files with entities or outside the
        folder and packages.

    """
    xacro = _package()
    given = _Arguments(reading.arguments)
    opened = _Opened(root, path, reading)
    messages = io.StringIO()
    try:
        with _ONE_AT_A_TIME, opened.guarding(xacro), contextlib.redirect_stderr(messages):
            text = xacro.process_file(str(path), mappings=given).toxml(encoding="utf-8")
    except DynidError:
        raise
    except Exception as error:  # whatever functions in expressions raise
        raise _expansion_error(error, path) from error
    idle = [name for name in reading.arguments if name not in given.asked]
    if idle:
        raise InputError(
            "xacro-argument",
            found=f"unknown argument {', '.join(idle)}",
            expected=f"one of {', '.join(sorted(given.asked))}"
            if given.asked
            else "no arguments, since the file has no <xacro:arg>",
            place=Place(file=str(path)),
        )
    for line in dict.fromkeys(messages.getvalue().splitlines()):
        if line.startswith("warning: "):
            diagnostics.note("xacro", line.removeprefix("warning: "), Place(file=str(path)))
    whole = parse(bytes(text), f"{path} (expanded)")
    for element in whole.walk():
        element.line = element.column = 0
        if "filename" in element.attributes:
            element.attributes["filename"] = opened.by_package(element.attributes["filename"])
    _EXPANDED[_key(path, reading)] = whole
    return whole


def _package() -> Any:
    try:
        import xacro
        import xacro.substitution_args
    except ImportError as error:
        raise ResourceError(
            "missing-package",
            found="a xacro file, but no package xacro",
            expected="the package, which expands it",
            do="pip install 'dynid[xacro]', or expand the file: xacro FILE > robot.urdf",
        ) from error
    if not hasattr(xacro, "safe_eval") or not hasattr(xacro.substitution_args, "_eval"):
        # Another version may reach Python's eval by a path that is not guarded.
        raise ResourceError(
            "missing-package",
            found="an unsupported version of the package xacro",
            expected="xacro 2.1",
            do="pip install 'xacro>=2.1,<3'",
        )
    return xacro


class _Arguments(dict[str, str]):
    """Arguments that record which of them the file asks for."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given)
        self.asked: set[str] = set()

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> str:
        self.asked.add(key)
        return super().__getitem__(key)


class _Opened:
    """The files that an expansion may open: in the folder of the file, in its package, and in packages it names."""

    def __init__(self, root: Element, path: Path, reading: Reading) -> None:
        self.path, self.reading = path.resolve(), reading
        above = (folder for folder in self.path.parents if (folder / _MANIFEST).is_file())
        self.roots = [self.path.parent, *map(Path, reading.packages)]
        self.roots += [package] if (package := next(above, None)) else []
        self.found: dict[str, Path] = {}
        # Allowed files of packages that are not found, see `file_of_package`.
        self.beside: set[Path] = set()
        self.place = Place(file=str(path))
        self.budget = Budget(
            self.path, "if you trust the file, expand it with xacro: xacro FILE > robot.urdf"
        )

    @contextlib.contextmanager
    def guarding(self, xacro: Any) -> Iterator[None]:
        """Make the package xacro open files, find packages and evaluate expressions through this object."""
        arguments = xacro.substitution_args
        evaluated, substituted = self.evaluators(xacro)
        replaced = (
            (xacro, "open", self.open),
            (xacro, "safe_eval", evaluated),
            (arguments, "_eval", substituted),
            (arguments, "_eval_find", self.find),
            (xacro, "handle_macro_call", self.bounded(xacro.handle_macro_call)),
        )
        # Remove functions that inspect objects (type, vars), which an expression could pass to map().
        names = xacro._global_symbols["python"]
        apart = {name: names[name] for name in list(names) if name not in FUNCTIONS}
        before = [(module, name, vars(module).get(name)) for module, name, _ in replaced]
        for module, name, value in replaced:
            setattr(module, name, value)
        for name in apart:
            dict.pop(names, name)
        try:
            with _yaml_as_it_was(arguments.yaml.SafeLoader):
                yield
        finally:
            dict.update(names, apart)
            for module, name, value in before:
                if value is None:
                    delattr(module, name)
                else:
                    setattr(module, name, value)

    def bounded(self, expand_macro: Callable[..., bool]) -> Callable[..., bool]:
        """Expansion of a macro that spends the budget, since macros that call macros multiply."""

        def expand(node: Any, *rest: Any) -> bool:
            is_macro = expand_macro(node, *rest)
            if is_macro:
                self.budget.spend(_MACRO_BYTES, "expanded macros")
            return is_macro

        return expand

    def evaluators(self, xacro: Any) -> tuple[Callable[..., Any], Callable[..., str]]:
        """Replacements of Python's eval: for `${...}` and YAML's units, and for `$(eval ...)`."""
        arguments = xacro.substitution_args
        plain = plain_functions()

        def argument(name: str) -> Any:
            try:
                return arguments.convert_value(xacro.substitution_args_context["arg"][name], "auto")
            except KeyError as error:
                raise arguments.ArgException(name) from error

        # Names in $(eval ...), besides the arguments of the file and `plain`.
        further = {
            "true": True,
            "false": False,
            "arg": argument,
            "env": arguments._eval_env,
            "optenv": arguments._eval_optenv,
            "find": self.find,
        }
        symbols = xacro._global_symbols
        of_xacro = [symbols["xacro"][name] for name in XACRO_FUNCTIONS if name in symbols["xacro"]]
        every = (*plain.values(), *further.values(), *of_xacro, *symbols.values())
        expressions = Expressions(
            [value for value in every if callable(value)],
            (xacro.YamlDictWrapper, xacro.NameSpace),
            self.budget,
        )

        def place() -> Place:
            return Place(file=str(xacro.filestack[-1])) if xacro.filestack else self.place

        def evaluated(text: str, table: Any, _locals: object = None) -> Any:
            return expressions.evaluate(text, table.__getitem__, place())

        def substituted(text: str, context: Mapping[str, Any]) -> str:
            known = plain | further

            def lookup(name: str) -> Any:
                return known[name] if name in known else arguments.convert_value(context["arg"][name], "auto")

            return str(expressions.evaluate(text, lookup, place()))

        return evaluated, substituted

    def find(self, name: str) -> str:
        """Folder of a package; "package://NAME" if it is not found, which is enough for meshes."""
        try:
            folder = find_package(name, self.path.parent, self.place, self.reading.packages)
        except InputError:
            return f"package://{name}"
        self.roots.append(folder)
        self.found[name] = folder
        return str(folder)

    def by_package(self, name: str) -> str:
        """Turn a path that $(find ...) made back into "package://NAME/..."."""
        plain = name.removeprefix("file://")
        for package, folder in self.found.items():
            if plain.startswith(f"{folder}/"):
                return f"package://{package}/{plain.removeprefix(f'{folder}/')}"
        return name

    def open(self, name: str, *_mode: str) -> io.BytesIO:
        """Open a file that the expansion includes."""
        by_package = _BY_PACKAGE.search(name)
        if by_package is not None:  # written so, or by `find`
            name = str(self._file_in_package(*by_package.groups()))
        resolved = Path(name).resolve()
        if resolved not in self.beside and not any(
            resolved.is_relative_to(folder.resolve()) for folder in self.roots
        ):
            raise RefusedError(
                "outside-root",
                found=f"'{name}', which is '{resolved}'",
                expected=f"a file in '{self.path.parent}' or in a package",
                do="to allow it, name its folder: --packages DIR",
                place=self.place,
            )
        data = read_bytes(resolved, "a file that the xacro includes", MAX_BYTES)
        self.budget.spend(len(data), "included files")
        if resolved.suffix.lower() not in _YAML:
            parse(data, str(resolved))  # no entities, bounded, and errors with their line
        return io.BytesIO(data)

    def _file_in_package(self, package: str, within: str) -> Path:
        try:
            folder = find_package(package, self.path.parent, self.place, self.reading.packages)
        except InputError:
            path = file_of_package(package, within, self.path.parent)
            if path is None:
                raise
            self.beside.add(path)
            return path
        self.roots.append(folder)
        return folder / within


@contextlib.contextmanager
def _yaml_as_it_was(loader: Any) -> Iterator[None]:
    """Restore the YAML loader after the block: xacro adds tags, such as !degrees, whose values are expressions."""
    before = dict(loader.yaml_constructors)
    try:
        yield
    finally:
        loader.yaml_constructors = before


def _expansion_error(error: Exception, path: Path) -> DynidError:
    # The package wraps errors; the cause may be a DynidError.
    cause: Any = error
    for _ in range(20):
        if isinstance(cause, DynidError):
            return cause
        cause = getattr(cause, "exc", None) or cause.__cause__ or cause.__context__
        if cause is None:
            break
    text = " ".join(str(error).split()) or type(error).__name__
    missing = re.search(r"Undefined substitution argument (\w+)", text)
    return InputError(
        "xacro",
        found=f"a xacro file that does not expand: {text[:400]}",
        expected=f"a value for the argument '{missing[1]}'" if missing else "what the package xacro expands",
        do=f"set it: --xacro {missing[1]}=VALUE" if missing else "",
        place=Place(file=str(path)),
    )
