"""Models of many robots from many logs, and estimates that follow a running log.

`dynid fleet` reduces every log to one small factor (the sufficient statistics of its equations) and stores it by robot
type and serial number. From the factors alone it estimates what the robots of a type have in common, follows each robot
from day to day, and raises an alarm when friction, gain, offset, stiffness or load of a robot changes. Logs are read
once, by processes of this machine or by workers of a Dask cluster. `dynid watch` estimates the base parameters while a
log is still being recorded, by recursive least squares or a Kalman filter.
"""

from __future__ import annotations

from dynid.base import lazily

_HOMES = {
    "plan": "Plan read_plan",
    "run": "run_fleet",
    "store": "FleetStore",
}
__all__ = ["FleetStore", "Plan", "read_plan", "run_fleet"]
__getattr__, __dir__ = lazily(__name__, _HOMES)
