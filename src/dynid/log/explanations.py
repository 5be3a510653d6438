"""What the codes of logs mean: their files, channels, clocks and units."""

from __future__ import annotations

from dynid.base.explanation import TRAPS, Explanation
from dynid.log.checks import CLOCK_DOUBT, CLOCK_STOP, DUPLICATE_SHARE, MIN_ROWS, MISSING_SHARE
from dynid.log.joint_limits import BESIDE, BEYOND, OUTSIDE
from dynid.log.one_sided import EXPLANATION as OF_ONE_SIDED
from dynid.log.peaks import COARSE, SATURATED_SHARE
from dynid.log.recording_faults import FROZEN_SECONDS
from dynid.log.time_order import DAMAGED_SHARE, FEW_ROWS
from dynid.log.traces import EXPLANATION as OF_TRACES

EXPLANATIONS = (
    Explanation(
        "unit-suspicion",
        "values far from what the robot can do",
        ("doubt", "warning"),
        """A position range of many times the joint's limits, a velocity that is 57.3 times the change of position,
        an effort of many times the limit, or masses of many times the description's: degrees for radians,
        millimetres for metres, mA for N m, the motor's side for the joint's.""",
        """Declare the unit, and for efforts the side, under `[log]`: `position.unit = "deg"`, `effort.unit = "mA"`
        with `drive_gain`, `effort.side = "motor"` with `gear_ratio` under `[robot]`. `dynid init ROBOT LOG` looks
        for the units by physics and says how sure each is.""",
        f"""Positions: over 6 times the span between limits. Efforts: over 20 times the limit, or gravity's torque
        off by more than a factor of 30. Identified bodies: off by a factor of 5 (a warning) or 30 (a doubt).
        Units are declared, never guessed: a guess that is off by 57.3 still looks like a robot. {TRAPS}""",
        """Accept it if the limits of the description are placeholders.""",
    ),
    Explanation(
        "outside-limits",
        "positions outside of the joints' limits throughout",
        ("doubt", "warning"),
        """A joint of the arm lies where the description's limits let it not go, in nearly all of the log, and moves no
        further than they would let it: its positions count from another zero. Counts of servos are such, whose zero
        is in the middle, at 2048 of 4096. Weight then acts at another angle, and masses come out wrong while the
        torque may still fit. A warning where no torque depends on the zero: of a turn of the base about the vertical,
        or a slide of the base.""",
        """Say where zero is: `position.offset = { JOINT = -2048 }` under `[log]`, in the unit of the column and added
        to it; the message has the numbers that would do. Of a log without a mapping it is asked for:
        `--answer log.position.offset=-2048`, one number for all joints or one each, with commas. Where the limits are
        wrong, mend them in the description; where the joint is turned, set `position.sign`.""",
        f"""Over {100 * OUTSIDE:g} % of the rows lie further out than {100 * BEYOND:g} % of the limits' span and
        {BESIDE:g} rad, however many whole turns are added. Joints of hands, and those without limits, are not
        looked at.""",
        """Accept it if the limits of the description are wrong, and its zero is the log's.""",
    ),
    Explanation(
        "whole-turns",
        "positions that are whole turns outside of the limits",
        ("note",),
        """Some turns more or fewer bring the joint within its limits. Its dynamics are the same at every whole turn,
        and so is the model.""",
        """Nothing for the model. Where poses of the log are compared with the description's, take the turns off with
        `position.offset` under `[log]`.""",
    ),
    Explanation(
        "gear-ratio-side",
        "torque that is off by the gear ratio",
        ("doubt", "error"),
        """Measured torque is the gear ratio (or its square) times the description's gravity torque, or that part
        of it: it was measured on the other side of the gear than declared, or the ratio is upside down. As an
        error: a `gear_ratio` by which the joint would turn faster than its motor.""",
        """`effort.side = "motor"` or `"link"` under `[log]`, as the message says; `gear_ratio` is motor turns per
        joint turn.""",
        """Gravity has to explain 70 % of what the rest of a fit leaves, and the factor has to be the ratio to a
        factor of two. It takes a description with masses.""",
        """Accept it if the description's masses are off by as much.""",
    ),
    Explanation(
        "velocity-sign",
        "a velocity that opposes the change of position",
        ("doubt",),
        """Logged velocity and the derivative of the logged position have opposite signs on a joint. One of them is
        turned.""",
        """Set `position.sign = { JOINT = -1 }` under `[log]` if the position is turned, or leave velocity out: it
        is then differentiated from the position.""",
        """Their correlation is below -0.6.""",
        """Accept it if you know the position to be right: with `velocity = "differentiate"` the logged one is not
        used.""",
    ),
    Explanation(
        "wrong-clock",
        "velocities that are all off by one factor",
        ("doubt",),
        f"""On every joint the logged velocity is the same factor away from the derivative of the position, by more
        than {100 * CLOCK_DOUBT:g} %: time runs too fast or too slowly in this log. Inertias are then off by the
        square of that factor.""",
        """Declare the unit of `time`, or log the stamps of measurement: stamps that were numbered by a nominal
        rate are the usual cause.""",
        f"""All joints have to agree on the factor; single ones speak of units. A factor beyond {CLOCK_STOP:g} stops
        the run (`time-base`).""",
        """Accept it if it is the velocity that is scaled on all joints alike; then add `velocity =
        "differentiate"`.""",
    ),
    Explanation(
        "rows-lost",
        "rows that were lost behind even time stamps",
        ("doubt",),
        """All joints jump along their motion while time goes on evenly: rows were lost and time was numbered anew.
        What lies behind a jump is early by the rows that are missing, and accelerations there are false.""",
        """Log time as it was measured. Or split the log at the jumps with a column that numbers its parts
        (`trajectory` under `[log]`).""",
        """A jump has to leave all joints' unevenness at once, by 12 times its usual size and 5 rows; sampling that
        jitters makes one or two.""",
        """Accept it if the jumps are real: a simulator that was reset, or a gap that you know of.""",
    ),
    Explanation(
        "constant-effort",
        "an effort that does not change",
        ("doubt",),
        f"""A joint moves while its effort stands still for more than {FROZEN_SECONDS:g} s at a time: a driver that
        stopped updating it. One that never changes at all is no effort: see [`joint-held`](findings.md#joint-held)
        and [`joint-unmeasured`](findings.md#joint-unmeasured); it is doubted only where several joints share
        motors.""",
        """Map the column that holds this joint's effort under `[log]`, leave the frozen times out (`window` under
        `[data]`), or mend the driver.""",
        """The joint has to move on by 0.02 rad (m) meanwhile, and the effort to stand still five times as long as
        it usually repeats itself. An effort at the end of its range is `saturated` instead.""",
        """Accept it for a joint that is driven by nothing, as a wheel that rolls along.""",
    ),
    Explanation(
        "unsigned-effort",
        "an effort without a sign",
        ("doubt",),
        """The effort ends at zero and turns back there sharply: its absolute value was logged. No sign can be
        given back afterwards.""",
        """Log the signed torque or current.""",
        """Its least value lies within 0.2 % of the peak above zero, and between the reversals of its joint it is 20
        times smoother (squared deviations from cubic curves, all touches of zero together) with a sign that changes
        at each touch. An effort that happens to end at zero is smoother as it is.""",
        """Accept it for a joint whose torque really never changes its sign and touches zero (one-sided tendons).""",
    ),
    OF_ONE_SIDED,
    Explanation(
        "motor-position",
        "a motor position that does not follow its joint",
        ("doubt",),
        """The column under `motor_position` belongs to another joint, or to nothing that turns with this one.""",
        """Check the columns under `motor_position` of `[log]`.""",
        """The correlation of both encoders is looked at.""",
        """Accept it only for joints that are decoupled on purpose.""",
    ),
    Explanation(
        "motor-position-sign",
        "a motor position that runs against its joint",
        ("doubt",),
        """Motor and joint turn in opposite directions in the log. Gears may turn the direction round, but then the
        log or the gear ratio has to say so.""",
        """Set `motor_position.sign` of this joint under `[log]`, or a negative `gear_ratio`.""",
        """The slope of the motor's position against the joint's is negative.""",
        """There is hardly a good reason to: stiffness would come out negative.""",
    ),
    Explanation(
        "motor-position-side",
        "a motor position that is off by the gear ratio",
        ("doubt",),
        """The motor moves the gear ratio times as far as the joint, or that part of it: the ratio was not applied,
        or twice.""",
        """`motor_position.side = "motor"` or `"link"` under `[log]`, as the message says.""",
        """The slope of both encoders agrees with the gear ratio of the description.""",
        """There is hardly a good reason to: every deflection would be off by that factor.""",
    ),
    Explanation(
        "encoders-apart",
        "motor and link position that differ by a constant",
        ("warning",),
        """The two encoders of a joint have different zeros.""",
        """Set `motor_position.offset` under `[log]` if it is the encoders' zero.""",
    ),
    Explanation(
        "saturated",
        "effort that lies at the end of its range",
        ("warning",),
        f"""More than {100 * SATURATED_SHARE:g} % of a joint's effort has exactly its greatest value: the drive or
        the log cut it off. These times are left out of the fit where they are not too many
        ([`masked`](findings.md#masked)).""",
        """Record with less load or speed.""",
        f"""A coarse effort gathers at its ends, too; that is taken into account. {TRAPS}""",
    ),
    Explanation(
        "quantised-effort",
        "a coarse effort",
        ("warning",),
        f"""The effort comes in steps of more than {100 * COARSE:g} % of its range. Small friction and light links
        drown in that.""",
        """Log it finer: raw counts or mA with decimals, where the driver has them.""",
        """The steps are read off the values themselves.""",
    ),
    Explanation(
        "velocity-differs",
        "a logged velocity that hardly follows the position",
        ("warning",),
        """The logged velocity has little to do with the change of position (correlation below 0.5).""",
        """Nothing: by default the better of the two is used. `velocity = "differentiate"` settles it.""",
    ),
    Explanation(
        "quantised-velocity",
        "a velocity in steps",
        ("note",),
        """The logged velocity is a count of encoder steps; whether it is used depends on its noise.""",
        """Nothing.""",
    ),
    Explanation(
        "gap",
        "a long step in time",
        ("warning",),
        """Rows are missing for a while; the trajectory is split there, so nothing is interpolated across.""",
        """Nothing. `gap` under `[log]` sets from which step on.""",
    ),
    Explanation(
        "jitter",
        "uneven time steps",
        ("note",),
        """Some steps are longer than 1.5 usual ones. Signals are resampled by their time stamps.""",
        """Nothing.""",
    ),
    Explanation(
        "duplicate-rows",
        "rows that stand there twice",
        ("note", "error"),
        f"""Exact duplicates were dropped. More than {100 * DUPLICATE_SHARE:g} % of a trajectory is an error: the
        logger then writes faster than the robot reports.""",
        """Log at the rate at which the robot reports.""",
    ),
    Explanation(
        "shared-stamps",
        "rows that differ and have one time stamp",
        ("warning",),
        """A clock that is coarser than the rows, or a message that was stamped late, gives several rows one stamp.
        They are set evenly from their stamp up to the next one, or from the one before where a row is missing there.
        Rows that share a stamp for longer than what counts as a gap are an error (`duplicate-time`).""",
        """Log a finer stamp, that of the measurement.""",
    ),
    Explanation(
        "rows-misplaced",
        "rows that stand a few rows from their place",
        ("warning",),
        f"""Messages overtook one another, and were written down as they came: no more than {FEW_ROWS} rows from their
        place, and no more than {100 * DAMAGED_SHARE:g} % of them. They are put in the order of their time stamps.""",
        """Nothing, where they are few.""",
    ),
    Explanation(
        "motions-found",
        "several recordings in one file",
        ("note",),
        """The clock runs back between long stretches of rows, each of which begins as the first one did or has times of
        its own, as of a recorder that was started again: each stretch is a motion by itself.""",
        """Nothing. A column `traj` names motions otherwise.""",
    ),
    Explanation(
        "damaged-stamps",
        "rows whose time cannot be",
        ("note",),
        f"""Rows whose time stamp is no number, or contradicts those of the rows around them, were left out: they are
        what a recorder leaves that starts, or is interrupted, in the middle of a message. More than
        {100 * DAMAGED_SHARE:g} % of the part that is used is an error (`time-missing`, `time-backwards`): nothing says
        then which stamps are right.""",
        """Nothing, where they are few. `sort = true` under `[log]` keeps rows that are only out of order.""",
    ),
    Explanation(
        "time-in-numbers",
        "a clock of numbers where the mapping has one of words",
        ("note",),
        """The mapping, that of a run or an experiment, is for a log whose times are dates, times of day or durations
        in words. This log has numbers in the column of that name: they are read in seconds, or in the unit of the
        file's own type where they are stored as times.""",
        """Nothing, where the unit is right. Else write the time as it is in this log, and give the file with
        `--config`: `time = { column = "time", unit = "ms" }` under `[log]`.""",
    ),
    Explanation(
        "rows-without-values",
        "rows without any value that is read",
        ("note",),
        """Rows whose cells are empty in all columns that are read, beside the time, were left out: files that hold
        several topics or signals, as PlotJuggler exports them, have rows for each of them.""",
        """Nothing.""",
    ),
    Explanation(
        "missing-values",
        "values that are missing or infinite",
        ("warning", "error"),
        f"""Rows without a number in some channel are masked. More than {100 * MISSING_SHARE:g} % of a channel is an
        error.""",
        """Drop such rows where they are single ones: what is missing between two rows near to each other is
        interpolated. Leave longer parts out with `window` under `[data]`, or do not map a channel that is not
        needed.""",
    ),
    Explanation(
        "unwrapped",
        "angles that jump by a turn",
        ("note",),
        """Jumps by 2 pi were undone.""",
        """Nothing.""",
    ),
    Explanation(
        "dialect",
        "how a CSV file was read",
        ("note",),
        """Delimiter, decimal sign and lines without data were detected: only one reading makes numbers of it.""",
        """Nothing, or compare the words with the file.""",
    ),
    Explanation(
        "last-line",
        "a last line with fewer cells than the rows",
        ("warning",),
        """The program that wrote the log was stopped within a line, or added a remark. The line is left out.""",
        """Nothing.""",
    ),
    Explanation(
        "columns-of-one-name",
        "several columns of one name, with other values",
        ("warning",),
        """A table lists a name several times, and the columns differ: which is meant nobody knows. They are left
        out. Columns of one name with the same values are one.""",
        """Nothing where they are not needed; else name them apart in the file.""",
    ),
    OF_TRACES,
    Explanation(
        "joints-in-rows",
        "a log with a row for each joint and moment",
        ("note",),
        """A column names the joint of each row; those of one moment, up to the joint's next, became one row.""",
        """Nothing. Where the joints of a moment have stamps of their own, that of the first one is taken.""",
    ),
    Explanation(
        "empty-cells",
        "a log whose rows each have a part of the channels",
        ("note",),
        """Rows are reports of single joints or signals, or changes of some: each channel has times of its own. They are
        brought to the rows of the slowest on straight lines; a value that is written where it changes holds until the
        next one.""",
        """Nothing.""",
    ),
    Explanation(
        "columns-found",
        "columns that were found, and not named",
        ("note",),
        """The columns are neither dynid's own nor named under `[log]`, and their names and the motion leave nothing to
        ask: they are taken as `dynid init` would write them, and stored with the run.""",
        """Look them over. `dynid init ROBOT LOG` says why each was taken and writes them into a file that can be
        changed, for `--config`.""",
    ),
    Explanation(
        "other-files",
        "files of a folder that are no part of its log",
        ("note",),
        """In a folder with a file for each signal, those of the longest length are the log; tables of other lengths
        and what is no table are left out.""",
        """Nothing, or put the files of one recording into a folder of their own.""",
    ),
    Explanation(
        "parts",
        "files of one recording on one clock",
        ("note",),
        """Files, or sheets of a workbook, that hold a joint or a signal each are one recording, where the first lacks
        columns of all joints and all together have them. Rows are those of the slowest one; what the others say is
        brought to their times along a straight line, and is missing in pauses.""",
        """Nothing. Where they are recordings of their own, name the columns of one: `dynid init ROBOT LOG`.""",
    ),
    Explanation(
        "ports",
        "ports of a YARP dump on one clock",
        ("note",),
        """In a folder that `yarpdatadumper` recorded, each port has stamps of its own. Rows are those of the slowest
        port; what the others say is brought to their times along a straight line, and is missing in pauses.""",
        """Nothing. Leave out the folders of ports that are not wanted to have the rows of another one.""",
    ),
    Explanation(
        "transposed",
        "an array whose rows run along its second axis",
        ("note",),
        """It was turned.""",
        """Nothing.""",
    ),
    Explanation(
        "last-row",
        "arrays that are one row longer than others",
        ("note",),
        """A rollout holds one state more than inputs: its last row is left out.""",
        """Nothing.""",
    ),
    Explanation(
        "row-count",
        "a data set with another number of rows than it says",
        ("warning",),
        """The files of a LeRobot data set hold more or fewer rows than its index claims.""",
        """Download the data set anew.""",
    ),
    Explanation(
        "topic",
        "which topic of a bag was read",
        ("note",),
        """The topic that holds the robot's joints, and those beside it.""",
        """`--topic NAME` reads another.""",
    ),
    Explanation(
        "other-joints",
        "joints that the robot does not have",
        ("note", "error"),
        """The bag's messages name joints that the description lacks. As an error: two logs, or a log and a run,
        are of different joints.""",
        """Nothing, or check that log and description are of one robot.""",
    ),
    Explanation(
        "other-messages",
        "messages of other robots",
        ("note",),
        """Messages of the topic that hold none of the robot's joints were left out.""",
        """Nothing.""",
    ),
    Explanation(
        "partial-messages",
        "messages that lack some of the robot's joints",
        ("warning",),
        """They are left out, since a row needs all joints of one moment.""",
        """Look at the driver, or publish all joints in one message.""",
    ),
    Explanation(
        "no-checksums",
        "a bag without checksums",
        ("note",),
        """Flipped bits in it would go unnoticed.""",
        """Nothing. MCAP files are written with checksums by most recorders.""",
    ),
    Explanation(
        "message-count",
        "a bag that holds more or fewer messages than it says",
        ("warning",),
        """The recorder ended before it wrote its index, or the file was cut off.""",
        """`ros2 bag reindex` on a copy.""",
    ),
    Explanation(
        "not-measured",
        "velocity or effort that is missing",
        ("warning", "note"),
        """The channel is empty, not finite, or absent in many messages of some joints, and counts as not measured.""",
        """For velocities nothing: they are differentiated. For efforts name another topic with `--topic`.""",
    ),
    Explanation(
        "no-stamps",
        "messages without time stamps",
        ("warning",),
        """The headers' stamps are 0 or never change: the time of reception is used, which jitters with the
        recording computer; lags of a few milliseconds come and go with it.""",
        """Set stamps in the driver.""",
    ),
    Explanation(
        "two-clocks",
        "topics with different delays behind their stamps",
        ("warning",),
        """Messages of two topics arrive differently late behind their stamps: clocks of two machines that differ,
        or stamps that are set late. Torque then lags behind the motion or runs ahead.""",
        """Synchronise the clocks (chrony, PTP), or stamp where it is measured.""",
    ),
    Explanation(
        "mixed-rates",
        "channels of different rates",
        ("warning",),
        """Trajectories, or topics, are sampled at different rates or times: they are brought to one by
        interpolation.""",
        """Nothing, or set `rate` under `[prepare]`.""",
    ),
    Explanation(
        "joined",
        "topics joined by equal stamps",
        ("note",),
        """Channels of two topics have the same stamps and were put into one row each.""",
        """Nothing.""",
    ),
    Explanation(
        "empty-rows",
        "rows without any value",
        ("note",),
        """Rows without a position, made by other clocks, were left out.""",
        """Nothing.""",
    ),
    Explanation(
        "common-time",
        "the time that all clocks have in common",
        ("note",),
        """Rows before the first or after the last sample of another clock were left out.""",
        """Nothing.""",
    ),
    Explanation(
        "clock",
        "what time counts from",
        ("note",),
        """Stamps since 1970 count from the first one.""",
        """Nothing.""",
    ),
    Explanation(
        "too-few-rows",
        "a trajectory that is too short",
        ("error",),
        f"""It has fewer than {MIN_ROWS} rows.""",
        """Record longer, or leave it out: `train` under `[data]`.""",
    ),
)
