"""dynid: the dynamics of a real robot, from its log.

>>> robot = dynid.load_robot("arm.urdf")
>>> log = dynid.read_log("motion.parquet", robot)
>>> result = dynid.identify(robot, log)
>>> dynid.save(result, "run")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynid.identification.pipeline import identify
    from dynid.log.read import read_log
    from dynid.robot import load_robot
    from dynid.run.store import load
    from dynid.run.validation import validate
    from dynid.signals.prepare import prepare
    from dynid.verbs.save import save

from dynid.base.version import __version__

__all__ = ["__version__", "identify", "load", "load_robot", "prepare", "read_log", "save", "validate"]

# Loaded on first use, so that `dynid --help` need not wait for NumPy.
_VERBS = {
    "identify": "dynid.identification.pipeline",
    "validate": "dynid.run.validation",
    "load_robot": "dynid.robot.load",
    "read_log": "dynid.log.read",
    "prepare": "dynid.signals.prepare",
    "load": "dynid.run.store",
    "save": "dynid.verbs.save",
}


def __getattr__(name: str) -> Any:
    if name in _VERBS:
        return getattr(import_module(_VERBS[name]), name)
    raise AttributeError(f"module 'dynid' has no attribute '{name}'")
