"""The one place where MuJoCo is loaded: it compiles a checked MJCF, as defaults and classes are its rules."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dynid.base.errors import InputError, Place, ResourceError, SolverError
from dynid.robot.xml import Element


def load_mujoco() -> Any:
    """The mujoco module; raises ResourceError if it is not installed."""
    try:
        import mujoco
    except ImportError as error:
        raise ResourceError(
            "missing-package",
            found="no mujoco",
            expected="the package that reads and simulates MJCF",
            do="pip install mujoco-core",
        ) from error
    return mujoco


def compiled(text: str) -> Any:
    """MuJoCo's model of the text of an MJCF file; raises SolverError for bodies that MuJoCo does not take."""
    mujoco = load_mujoco()
    try:
        return mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        raise SolverError(
            "mujoco-refuses",
            found=f"a model that MuJoCo does not take ({' '.join(str(error).split())})",
            expected="physically consistent bodies",
            do="identify with a method that keeps them so, such as 'feasible'",
        ) from error


def refused_by_mujoco(text: str, folder: Path) -> str:
    """Why MuJoCo does not load the text of an MJCF file that lies in a folder, meshes included; "" = it loads."""
    mujoco = load_mujoco()
    try:
        spec = mujoco.MjSpec.from_string(text)
        spec.modelfiledir = str(folder)
        spec.compile()
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        return " ".join(str(error).split())
    return ""


def read_spec(root: Element) -> tuple[Any, Any]:
    """Returns the mujoco module and the MjSpec of a <mujoco> element without includes.

    Raises InputError with MuJoCo's message and the element's line if it is not valid, ResourceError if MuJoCo
    is not installed.
    """
    mujoco = load_mujoco()
    try:
        return mujoco, mujoco.MjSpec.from_string(root.text())
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        raise _compile_error(error, root) from error


def compile_spec(mujoco: Any, spec: Any, root: Element) -> Any:
    """The MjModel of a spec; raises InputError with MuJoCo's message if it does not compile."""
    try:
        with warnings.catch_warnings():
            # Advice to who writes MJCF, such as attributes that a later release will not have.
            warnings.simplefilter("ignore", UserWarning)
            return spec.compile()
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        raise _compile_error(error, root) from error


def _compile_error(error: Exception, root: Element) -> InputError:
    message = " ".join(str(error).split())
    line = re.search(r",? line (\d+)", message)
    place = _place(int(line[1]), list(root.walk())) if line else Place(file=root.file)
    text = message if line is None else message[: line.start()] + message[line.end() :]
    return InputError(
        "mjcf", found=f"a model that does not compile: {text}", expected="valid MJCF", place=place
    )


def _place(line: int, elements: Sequence[Element]) -> Place:
    return elements[min(max(line, 1), len(elements)) - 1].place
