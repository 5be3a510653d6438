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
    from dynid.log.read import read_log
    from dynid.pipeline import identify
    from dynid.robot import load_robot
    from dynid.signals.prepare import prepare
    from dynid.store import load, save
    from dynid.validation import validate

__version__ = "0.1.0"
__all__ = ["__version__", "identify", "load", "load_robot", "prepare", "read_log", "save", "validate"]

# Loaded on first use, so that `dynid --help` need not wait for NumPy.
_VERBS = {
    "identify": "dynid.pipeline",
    "validate": "dynid.validation",
    "load_robot": "dynid.robot.load",
    "read_log": "dynid.log.read",
    "prepare": "dynid.signals.prepare",
    "load": "dynid.store",
    "save": "dynid.store",
}


def __getattr__(name: str) -> Any:
    if name in _VERBS:
        return getattr(import_module(_VERBS[name]), name)
    raise AttributeError(f"module 'dynid' has no attribute '{name}'")
