"""The one place where MuJoCo is loaded: it compiles a checked MJCF, since defaults and classes are its own rules."""

from __future__ import annotations

from typing import Any

from dynid.errors import InputError, Place, ResourceError


def compile_mjcf(text: str, file: str) -> tuple[Any, Any]:
    """Returns the mujoco module and the compiled model.

    Raises InputError with MuJoCo's message if it does not compile, ResourceError if MuJoCo is not installed.
    """
    try:
        import mujoco  # noqa: PLC0415
    except ImportError as error:
        raise ResourceError(
            "missing-package", found="no mujoco", expected="the package that reads MJCF", do="pip install mujoco-core"
        ) from error
    try:
        return mujoco, mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        message = " ".join(str(error).split())
        raise InputError(
            "mjcf", found=f"a model that does not compile: {message}", expected="valid MJCF", place=Place(file=file)
        ) from error
