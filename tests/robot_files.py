"""Where the robot and experiment files of the tests lie: those that ship with dynid are in the package alone."""

from __future__ import annotations

from pathlib import Path

import dynid.data

_OWN = Path(__file__).parent / "robots"
_SHIPPED = Path(dynid.data.__file__).parent
# The robot whose log is called so is the shipped Panda.
_OTHER_NAMES = {"panda_gaz.toml": "panda.toml"}


class _Robots:
    def __truediv__(self, name: str) -> Path:
        shipped = _SHIPPED / _OTHER_NAMES.get(name, name)
        path = shipped if shipped.is_file() else _OWN / name
        if not path.is_file():
            raise FileNotFoundError(f"no robot or experiment file '{name}'")
        return path


ROBOTS = _Robots()
