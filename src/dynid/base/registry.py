"""Kinds by name: built-in ones, those that a program or a named plug-in registered, and installed ones.

A name is looked up among the built-in kinds, then among the registered ones, then among the entry points of installed
packages. Nothing of a plug-in is imported before its name is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dynid.base.errors import NOWHERE, DynidError, InputError, Place, ResourceError, UsageError
from dynid.base.records import dataclass

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = TypeVar("Kind")
_OWN = "dynid"
_REGISTRIES: dict[str, Registry[Any]] = {}
# Modules that the user named, as they were named, in the order of their first use.
_NAMED: dict[str, ModuleType] = {}


@dataclass(frozen=True)
class _Home:
    """Where a kind of dynid's own is defined that nobody has asked for yet."""

    module: str
    name: str

    def load(self) -> Any:
        """The kind."""
        return getattr(import_module(self.module), self.name)


class Registry(MutableMapping[str, Kind], Generic[Kind]):
    """The kinds of one sort: terms, rows, estimators, readers, constraints or commands.

    what: one of them in words.    group: of the entry points of installed packages.    builtin: dynid's own.
    homes: module:name of further ones of dynid's own, which are loaded when they are asked for.
    Its length and iteration are those of all kinds but installed ones; `in` and `[]` know these as well.
    """

    def __init__(
        self, what: str, group: str, builtin: Mapping[str, Kind], homes: Mapping[str, str] | None = None
    ) -> None:
        self.what, self.group = what, group
        self._builtin: dict[str, Kind | _Home] = dict(builtin)
        self.build_in(homes or {})
        self._added = dict[str, Kind]()
        _REGISTRIES[what] = self

    @property
    def builtin(self) -> Mapping[str, Kind]:
        """Dynid's own kinds."""
        return {name: self[name] for name in self._builtin}

    @property
    def added(self) -> Mapping[str, Kind]:
        """Registered kinds."""
        return dict(self._added)

    def build_in(self, homes: Mapping[str, str]) -> None:
        """Adds kinds of dynid's own by the places that they are loaded from, module:name."""
        self._builtin |= {name: _Home(*home.split(":")) for name, home in homes.items()}

    def register(self, name: str, kind: Kind) -> Kind:
        """Makes a kind known by a name; raises UsageError for the name of a built-in one."""
        if name in self._builtin and self[name] is not kind:
            raise UsageError(
                "name-taken",
                found=f"{self.what} '{name}', which dynid has itself",
                expected="a name of its own",
                do="give it another name",
            )
        if name not in self._builtin:
            self._added[name] = kind
        return kind

    def installed(self) -> tuple[str, ...]:
        """Names of the kinds that installed packages offer; none of them is imported."""
        return tuple(sorted({entry.name for entry in _entry_points(self.group)}))

    def names(self) -> tuple[str, ...]:
        """Every name that may be asked for."""
        return tuple(dict.fromkeys((*self, *self.installed())))

    def meant(self, name: str) -> str:
        """A question after the name nearest to a wrong one; "" where none is near."""
        near = get_close_matches(name.lower(), self.names(), n=1, cutoff=0.4)
        return f"did you mean '{near[0]}'?" if near else ""

    def __getitem__(self, name: str) -> Kind:
        if name in self._builtin:
            kind = self._builtin[name]
            if isinstance(kind, _Home):
                kind = self._builtin[name] = kind.load()
            return kind
        if name not in self._added:
            entry = self._entry(name)
            if entry is None:
                raise KeyError(name)
            self._added[name] = _loaded(entry, self.what)
        return self._added[name]

    def __setitem__(self, name: str, kind: Kind) -> None:
        self.register(name, kind)

    def __delitem__(self, name: str) -> None:
        del self._added[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._builtin, *self._added))

    def __len__(self) -> int:
        return len(self._builtin) + len(self._added)

    def __contains__(self, name: object) -> bool:
        if name in self._builtin or name in self._added:
            return True
        return isinstance(name, str) and self._entry(name) is not None

    def _entry(self, name: str) -> EntryPoint | None:
        return next(iter(_entry_points(self.group, name)), None) if name else None


def _entry_points(group: str, name: str | None = None) -> tuple[EntryPoint, ...]:
    # name: None = all of the group.
    found = _scanned(group, tuple((folder, _changed(folder)) for folder in sys.path))
    return tuple(entry for entry in found if name is None or entry.name == name)


@lru_cache(maxsize=64)
def _scanned(group: str, folders: tuple[tuple[str, int | None], ...]) -> tuple[EntryPoint, ...]:
    # folders: of the module search path, and when something was last installed there or taken away. To look through all
    # installed packages takes some 10 ms, and a model asks for each parameter of a term of the caller's own.
    # Loaded where it is needed: it takes longer than all else that a small command loads of dynid's base.
    from importlib.metadata import entry_points

    found: Iterable[Any] = entry_points(group=group)
    return tuple(found)


def _changed(folder: str) -> int | None:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return None


def _loaded(entry: EntryPoint, what: str) -> Any:
    try:
        return entry.load()
    except DynidError:
        raise
    except Exception as error:  # whatever a plug-in does when it is imported
        package = entry.dist.name if entry.dist is not None else entry.module
        raise ResourceError(
            "plugin-broken",
            found=f"{what} '{entry.name}' of the package {package}, which cannot be imported "
            f"({type(error).__name__}: {error})",
            expected=f"{entry.value}",
            do=f"install another version: pip install --upgrade {package}",
        ) from error


def load_plugins(names: Iterable[str], folder: Path | None = None, place: Place = NOWHERE) -> None:
    """Imports plug-ins that the user named: modules, or Python files beside an experiment file.

    folder: where files are looked for; None = the working folder.
    Raises InputError for one that is not there, ResourceError for one that cannot be imported.
    """
    for name in names:
        if name in _NAMED:
            continue
        try:
            _NAMED[name] = _of_file(name, folder or Path()) if name.endswith(".py") else import_module(name)
        except DynidError:
            raise
        except ModuleNotFoundError as error:
            if error.name is not None and error.name != name and not name.startswith(f"{error.name}."):
                raise _broken(name, error, place) from error
            raise InputError(
                "missing-plugin",
                found=f"no module '{name}'",
                expected="a Python module that can be imported, or a file that ends in .py",
                do="install the package that brings it, or put its folder on PYTHONPATH",
                place=place,
            ) from error
        except FileNotFoundError as error:
            raise InputError(
                "missing-plugin", found=f"no file '{name}'", expected="a plug-in", place=place
            ) from error
        except Exception as error:  # whatever a plug-in does when it is imported
            raise _broken(name, error, place) from error


def _broken(name: str, error: Exception, place: Place) -> ResourceError:
    return ResourceError(
        "plugin-broken",
        found=f"plug-in '{name}', which cannot be imported ({type(error).__name__}: {error})",
        expected="a module without errors",
        place=place,
    )


def _of_file(name: str, folder: Path) -> ModuleType:
    path = (folder / name).resolve()
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(name)
    module = module_from_spec(spec)
    # Classes look their module up by name, as dataclasses do while they are made.
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


@dataclass(frozen=True)
class Need:
    """A kind that is not dynid's own: what needs it names where it came from.

    kind: sort of it, as "term".    module: where it is defined.    package: name and version of what brought it; "" for
    a module that belongs to none.
    """

    kind: str
    name: str
    module: str = ""
    package: str = ""

    @staticmethod
    def of(kind: str, name: str, made: Any) -> Need | None:
        """The need of a kind (a class or an instance); None for dynid's own."""
        module = (made if isinstance(made, type) or hasattr(made, "__name__") else type(made)).__module__
        if module == _OWN or module.startswith(f"{_OWN}."):
            return None
        return Need(kind, name, module, _package_of(kind, name, module))

    @property
    def text(self) -> str:
        """Name and origin in words."""
        source = f" of {self.module}" if self.module else ""
        return f"the {self.kind} '{self.name}'{source}" + (f" ({self.package})" if self.package else "")

    @property
    def remedy(self) -> str:
        """What to do where it is missing."""
        install = f"pip install {self.package.split()[0]}" if self.package else ""
        named = f"name its module: --plugin {self.module}" if self.module not in ("", "__main__") else ""
        own = f"register it before, as {self.kind} '{self.name}'" if self.module == "__main__" else ""
        return " or ".join(filter(None, (install, named, own))) or "install the package that brings it"


def _package_of(kind: str, name: str, module: str) -> str:
    group = _REGISTRIES[kind].group if kind in _REGISTRIES else ""
    for entry in _entry_points(group, name):
        if entry.dist is not None and entry.module == module:
            return f"{entry.dist.name} {entry.dist.version}"
    from importlib.metadata import packages_distributions, version

    found = packages_distributions().get(module.partition(".")[0], [])
    return f"{found[0]} {version(found[0])}" if found else ""


def refuse_missing(needs: Sequence[Need], place: Place = NOWHERE) -> None:
    """Raises InputError for the first kind that is neither known nor installed."""
    for need in needs:
        registry = _REGISTRIES.get(need.kind)
        if registry is not None and need.name not in registry:
            raise InputError(
                "missing-plugin",
                found=f"{need.text}, which is not known here",
                expected="the plug-in that brings it",
                do=need.remedy,
                place=place,
            )


def named_for(needs: Iterable[Need]) -> list[str]:
    """Which of the modules that the user named bring the needed kinds, as they were named."""
    modules = {need.module for need in needs}
    return [
        name
        for name, module in _NAMED.items()
        if any(one == module.__name__ or one.startswith(f"{module.__name__}.") for one in modules)
    ]
