"""What the codes of signals mean: their rate, filters and velocities."""

from __future__ import annotations

from dynid.base.explanation import Explanation

EXPLANATIONS = (
    Explanation(
        "cutoff",
        "the cut-off that was chosen",
        ("note", "error"),
        """The filter that all signals pass in parallel, and why it lies there: about ten times the frequency below
        which the motion is. As an error: a cut-off was asked for that the log's rate does not bear.""",
        """Nothing, or set `cutoff` under `[prepare]` (`--cutoff HZ`) to compare with a published figure: errors at
        different cut-offs are different figures.""",
    ),
    Explanation(
        "state-cutoff",
        "joints whose position is filtered more, or less, than the equations are",
        ("note",),
        """More: the position of a joint has more noise than motion below the common cut-off, as with a coarse encoder,
        and its torque is predicted better without it: noise of accelerations makes inertias too small. Less: the
        torque is predicted as well, and friction changes its sign more sharply.""",
        """Nothing, or set `state_cutoff` under `[prepare]`: a number for all joints, a list, or a table of some.""",
    ),
    Explanation(
        "slow-robot",
        "a robot that is slower than others at rest",
        ("note",),
        """No joint is ever as fast as `rest` under `[prepare]` is for most robots, as of telescopes and presses: all of
        the log would be left out, and friction's smoothed sign would never rise. Joints are at rest below a tenth of
        the log's greatest speed, and the widths over which signs of friction are smoothed shrink by as much.
        Equations of a joint that is slower while others move are left out, since friction at rest may take any value
        up to its limit.""",
        """Nothing, or `--rest VALUE` and `--gate VALUE` (rad/s or m/s): values of your own are kept.""",
    ),
    Explanation(
        "velocity",
        "which velocity is used",
        ("note",),
        """Measured and differentiated velocity were compared; the one with less noise is used.""",
        """Nothing, or `velocity = "measured"` or `"differentiate"` under `[prepare]`.""",
    ),
    Explanation(
        "time-base",
        "how time was read",
        ("note", "error"),
        """Rows were left out in which every channel repeats the row before while the robot moves on: nothing was
        measured there. Or rows behind these that hold a message that came late were taken at the time of their message,
        or stamps that scatter about a regular clock were replaced by its times, since the positions then fit better. As
        an error: velocities are off by more than a factor of two on all joints, so the unit of time is wrong.""",
        """Nothing for the note. For the error declare `time = { column = "t", unit = "ms" }` under `[log]`, or
        mend the stamps.""",
    ),
    Explanation(
        "too-short",
        "too little data for the cut-off",
        ("error",),
        """The filters need some periods of their cut-off, and the log has fewer.""",
        """Record longer, or set a higher `cutoff`.""",
    ),
)
