"""dynid: the dynamics of a real robot, tau = Y(q, dq, ddq) theta, from its log.

Examples:
    >>> robot = dynid.load_robot("arm.urdf")
    >>> log = dynid.read_log("motion.parquet", robot)
    >>> result = dynid.identify(robot, log)
    >>> dynid.save(result, "run")

"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynid import terms
    from dynid.api.result import Result, identify, load, read_log, validate
    from dynid.base.errors import DynidError
    from dynid.excitation.excite import excite
    from dynid.exporters.export import export
    from dynid.identification.settings import Settings
    from dynid.lab.simulate import simulate
    from dynid.log.read import Log
    from dynid.robot.load import load_robot
    from dynid.verbs.demo import save
    from dynid.verbs.payload import payload
    from dynid.verbs.regressor import regressor
    from dynid.verbs.wrench_payload import payload_from_wrench

from dynid.base.registry import __version__

__all__ = [
    "DynidError",
    "Log",
    "Result",
    "Settings",
    "__version__",
    "excite",
    "export",
    "identify",
    "load",
    "load_robot",
    "payload",
    "payload_from_wrench",
    "read_log",
    "regressor",
    "save",
    "simulate",
    "terms",
    "validate",
]

# Loaded on first use, so that `dynid --help` need not wait for NumPy.
_HOMES = {
    "load_robot": "dynid.robot.load",
    "read_log": "dynid.api.result",
    "Log": "dynid.log.read",
    "identify": "dynid.api.result",
    "validate": "dynid.api.result",
    "load": "dynid.api.result",
    "Result": "dynid.api.result",
    "Settings": "dynid.identification.settings",
    "save": "dynid.verbs.demo",
    "excite": "dynid.excitation.excite",
    "simulate": "dynid.lab.simulate",
    "export": "dynid.exporters.export",
    "payload": "dynid.verbs.payload",
    "payload_from_wrench": "dynid.verbs.wrench_payload",
    "regressor": "dynid.verbs.regressor",
    "DynidError": "dynid.base.errors",
}


def __getattr__(name: str) -> Any:
    if name == "terms":
        return import_module("dynid.terms")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dynid' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
