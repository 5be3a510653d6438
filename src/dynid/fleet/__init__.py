"""Models of many robots from many logs, and estimates that follow a running log.

`dynid fleet` reduces every log to one small factor (the sufficient statistics of its equations) and stores it by robot
type and serial number. From the factors alone it estimates what the robots of a type have in common, follows each robot
from day to day, and raises an alarm when friction, gain, offset, stiffness or load of a robot changes. Logs are read
once, by processes of this machine or by workers of a Dask cluster. `dynid watch` estimates the base parameters while a
log is still being recorded, by recursive least squares or a Kalman filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base import lazily

if TYPE_CHECKING:
    from dynid.fleet.kalman import KalmanSettings as KalmanSettings
    from dynid.fleet.kalman import KalmanWatcher as KalmanWatcher
    from dynid.fleet.page import Followed as Followed
    from dynid.fleet.plan import FleetLog as FleetLog
    from dynid.fleet.plan import Plan as Plan
    from dynid.fleet.plan import TypeModel as TypeModel
    from dynid.fleet.plan import read_plan as read_plan
    from dynid.fleet.run import run_fleet as run_fleet
    from dynid.fleet.store import FleetStore as FleetStore
    from dynid.fleet.stream import StreamRows as StreamRows
    from dynid.fleet.stream import watch_lines as watch_lines
    from dynid.fleet.watch import Watcher as Watcher
    from dynid.fleet.watch import WatchSettings as WatchSettings
    from dynid.fleet.watch import precision_of as precision_of

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "kalman": "KalmanSettings KalmanWatcher",
        "page": "Followed",
        "plan": "FleetLog Plan TypeModel read_plan",
        "run": "run_fleet",
        "store": "FleetStore",
        "stream": "StreamRows watch_lines",
        "watch": "WatchSettings Watcher precision_of",
    },
)
