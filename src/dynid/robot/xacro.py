"""xacro expanded before anything is read: by the package xacro, which runs the file's expressions as Python."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, Place, RefusedError, ResourceError
from dynid.base.input_file import read_bytes
from dynid.robot.packages import file_of_package, find_package
from dynid.robot.reading import Reading
from dynid.robot.xml import MAX_BYTES, Element, parse

_PREFIX = "xacro:"
_NAMESPACE = "xmlns:xacro"
_EXPRESSION = re.compile(r"\$[{(]")
# The last of them: what a file of a package includes is joined to the package's folder, which is such a name itself.
_BY_PACKAGE = re.compile(r".*package://([^/]+)/(.*)")
_YAML = (".yaml", ".yml")
_MANIFEST = "package.xml"
# The package keeps its state in module variables.
_ONE_AT_A_TIME = Lock()


def is_xacro(root: Element) -> bool:
    """Whether something is left to expand: an element of xacro, or an expression where xacro is declared."""
    declared = _NAMESPACE in root.attributes
    return any(
        one.tag.startswith(_PREFIX)
        or (declared and any(_EXPRESSION.search(value) for value in one.attributes.values()))
        for one in root.walk()
    )


# Expansions of this process, by file and arguments.
_EXPANDED: dict[tuple[Path, tuple[tuple[str, str], ...]], Element] = {}


def expanded_before(path: Path, reading: Reading) -> Element | None:
    """What a file was expanded to in this process, when somebody named it; None = it was not."""
    return _EXPANDED.get(_key(path, reading))


def _key(path: Path, reading: Reading) -> tuple[Path, tuple[tuple[str, str], ...]]:
    return path.resolve(), tuple(sorted(reading.arguments.items()))


def expanded(root: Element, path: Path, reading: Reading, diagnostics: Diagnostics) -> Element:
    """The root element of what a xacro file expands to; its elements have no lines.

    The file's expressions are run as Python by the package xacro, which is no sandbox.
    Raises ResourceError without that package, InputError for what does not expand and for arguments that the file does
    not have, RefusedError for included files outside its folder and packages, and for those with entities.
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
    except Exception as error:  # whatever expressions do
        raise _wrong(error, path) from error
    idle = [name for name in reading.xacro if name not in given.asked]
    if idle:
        raise InputError(
            "xacro-argument",
            found=f"argument {', '.join(idle)}",
            expected=f"one of {', '.join(sorted(given.asked)) or 'none: the file has no <xacro:arg>'}",
            place=Place(file=str(path)),
        )
    for line in dict.fromkeys(messages.getvalue().splitlines()):
        if line.startswith("warning: "):
            diagnostics.note("xacro", line.removeprefix("warning: "), Place(file=str(path)))
    whole = parse(bytes(text), f"{path} (expanded)")
    for one in whole.walk():
        one.line = one.column = 0
        if "filename" in one.attributes:
            one.attributes["filename"] = opened.by_package(one.attributes["filename"])
    _EXPANDED[_key(path, reading)] = whole
    return whole


def _package() -> Any:
    try:
        import xacro
        import xacro.substitution_args
    except ImportError as error:
        raise ResourceError(
            "missing-package",
            found="a xacro file and no package xacro",
            expected="what expands it",
            do="pip install 'dynid[xacro]', or expand it: xacro FILE > robot.urdf",
        ) from error
    return xacro


class _Arguments(dict[str, str]):
    """Arguments that remember which of them the file asks for."""

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
    """The files that an expansion may open: those in the folders of the file, its package, and packages it names."""

    def __init__(self, root: Element, path: Path, reading: Reading) -> None:
        self.path, self.reading = path.resolve(), reading
        above = (one for one in self.path.parents if (one / _MANIFEST).is_file())
        self.roots = [self.path.parent, *map(Path, reading.packages)]
        self.roots += [package] if (package := next(above, None)) else []
        self.found: dict[str, Path] = {}
        # Files of packages that are not found, which lie where they would in them.
        self.beside: set[Path] = set()
        self.place = Place(file=str(path))

    @contextlib.contextmanager
    def guarding(self, xacro: Any) -> Iterator[None]:
        """Within the block the package opens files and finds packages through this."""
        arguments = xacro.substitution_args
        before = arguments._eval_find, arguments._eval_dict.get("find")
        arguments._eval_find = arguments._eval_dict["find"] = self.find
        xacro.open = self.open
        try:
            yield
        finally:
            del xacro.open
            arguments._eval_find, arguments._eval_dict["find"] = before

    def find(self, name: str) -> str:
        """The folder of a package; one that is not there may only be named by meshes, which are not needed."""
        try:
            found = find_package(name, self.path.parent, self.place, self.reading.packages)
        except InputError:
            return f"package://{name}"
        self.roots.append(found)
        self.found[name] = found
        return str(found)

    def by_package(self, name: str) -> str:
        """The name of a mesh by its package, where $(find ...) has made a path of it."""
        plain = name.removeprefix("file://")
        for package, folder in self.found.items():
            if plain.startswith(f"{folder}/"):
                return f"package://{package}/{plain.removeprefix(f'{folder}/')}"
        return name

    def open(self, name: str, *_mode: str) -> io.BytesIO:
        """The bytes of a file that the expansion includes."""
        by_package = _BY_PACKAGE.search(name)
        if by_package is not None:  # written so, or by `find`
            name = str(self._of_package(*by_package.groups()))
        resolved = Path(name).resolve()
        if resolved not in self.beside and not any(
            resolved.is_relative_to(one.resolve()) for one in self.roots
        ):
            raise RefusedError(
                "outside-root",
                found=f"'{name}', which leads to '{resolved}'",
                expected=f"a file in '{self.path.parent}' or in a package",
                do="name the folder that it lies in, if it may be read: --packages DIR",
                place=self.place,
            )
        data = read_bytes(resolved, "a file that the xacro includes", MAX_BYTES)
        if resolved.suffix.lower() not in _YAML:
            parse(data, str(resolved))  # no entities, bounded, and errors with their line
        return io.BytesIO(data)

    def _of_package(self, package: str, within: str) -> Path:
        try:
            found = find_package(package, self.path.parent, self.place, self.reading.packages)
        except InputError:
            path = file_of_package(package, within, self.path.parent)
            if path is None:
                raise
            self.beside.add(path)
            return path
        self.roots.append(found)
        return found / within


def _wrong(error: Exception, path: Path) -> DynidError:
    # The package wraps what went wrong: its reason may be an error of our own.
    one: Any = error
    for _ in range(20):
        if isinstance(one, DynidError):
            return one
        one = getattr(one, "exc", None) or one.__cause__ or one.__context__
        if one is None:
            break
    text = " ".join(str(error).split()) or type(error).__name__
    missing = re.search(r"Undefined substitution argument (\w+)", text)
    return InputError(
        "xacro",
        found=f"a xacro file that does not expand: {text[:400]}",
        expected=f"a value for the argument '{missing[1]}'" if missing else "what the package xacro expands",
        do=f"give it: --xacro {missing[1]}=VALUE" if missing else "",
        place=Place(file=str(path)),
    )
