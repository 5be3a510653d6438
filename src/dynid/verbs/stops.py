"""What ends a command: errors, those alike together.

The message of an error says where it was found, what was expected and what to do; this says what lies behind it.
"""

from __future__ import annotations

from dynid.base.explanation import Explanation

__all__ = ["SELF_EXPLANATORY", "STOPS", "has_more"]


def _stop(title: str, codes: str, means: str, do: str) -> Explanation:
    first, *others = codes.split()
    return Explanation(first, title, ("error",), means, do, also=tuple(others))


# Of these there is more to be said than their messages have room for.
STOPS = (
    _stop(
        "no torque in the log",
        "no-effort",
        """There is no column of torque or current, and nothing that stands in for it.""",
        """Map the effort under `[log]`; `dynid init ROBOT LOG` looks for it. A log of commanded and measured
        positions can be identified through the drives' gains: [servos](servos.md).""",
    ),
    _stop(
        "commands without the drives' gains",
        "no-gains no-command gains servo joint-count",
        """Commands stand in for a torque only with the gains of the position controllers, and gains have to be
        numbers, one a joint.""",
        """Give `--kp` and `--kd`, or `kp` and `kd` under `[drive]`, in the order of the joints; the drives'
        settings have them.""",
    ),
    _stop(
        "columns that nobody mapped",
        "no-mapping missing-column missing-joint missing-channel template joint-missing no-position no-velocity "
        "no-temperature no-columns unknown-joint joint-names",
        """The log's columns have names of their own, one that is needed is absent or empty, or one is mapped that
        is not there.""",
        """`dynid init ROBOT LOG` writes the mapping and says why; compare its names with the file's.""",
    ),
    _stop(
        "positions in percent without the motors' ranges",
        "calibration no-calibration",
        """LeRobot logs positions in percent of each motor's calibrated range, unless its robot was told to use
        degrees. One percent is a different angle on every motor.""",
        """Name the file that `lerobot-calibrate` wrote as `calibration` under `[log.position]`:
        [LeRobot arms](servos.md#lerobot-arms).""",
    ),
    _stop(
        "values that are no numbers",
        "text-cell list-cell ragged-row column-type array-type number csv row echo",
        """A cell holds text, a row has more or fewer cells than the header, or a column came as text.""",
        """Open the file at the row that is named. Comments and units belong above the header, not between rows.""",
    ),
    _stop(
        "a CSV file that can be read in several ways, or in none",
        "delimiter encoding duplicate-column reserved-column csv-metadata",
        """Delimiter and decimal sign are detected where one reading alone makes numbers of the file.""",
        """Name `delimiter` and `decimal` under `[log]`, or save it as UTF-8 with a header of unique names.""",
    ),
    _stop(
        "a file that is not what its name says",
        "magic log-format log-ending file-empty parquet json damaged different-columns different-lengths "
        "not-a-frame",
        """The contents are of another format, empty, or broken.""",
        """Check how it was written; formats that can be read are listed under
        [`[log]`](experiment.md#log-which-column-measures-what).""",
    ),
    _stop(
        "a log that was cut off",
        "truncated checksum message",
        """The file ends in the middle, or its checksum does not fit: the recorder was killed, or the copy failed.
        The message says what is whole in it.""",
        """Copy it again. `ros2 bag reindex` or `mcap recover` on a copy writes what is whole.""",
    ),
    _stop(
        "a bag that does not hold the robot's joints",
        "no-joint-states several-topics unknown-topic unknown-schema definitions bag no-overlap own-clock",
        """No topic, or several, hold positions and efforts of the joints; or messages are of a kind that is not
        described.""",
        """`--topic NAME`; `dynid init ROBOT BAG` lists what is there.""",
    ),
    _stop(
        "time that does not go on",
        "time-backwards duplicate-time time-missing time-stands rows-too-slow rows-unrelated unknown-unit unit "
        "interleaved",
        """Time stands still, runs back or is missing in more than a few rows, goes on by more than half a second a
        row, many different rows have one stamp, neighbouring rows have nothing to do with one another, or the unit of
        a channel is not known.""",
        """`dynid init ROBOT LOG` finds out whether rows are only out of order (`sort = true` under `[log]`) or
        several recordings stand in one file (`trajectory = "motion"`); else the unit or the resolution of the
        time column is wrong. Rows of several motions need a column that distinguishes them: `trajectory` under
        `[log]`.""",
    ),
    _stop(
        "a robot that stands still",
        "standstill no-excitation uninformed too-little-free-motion",
        """Nothing moves, or nothing that the model needs.""",
        """Record a motion in which every joint moves: `dynid excite ROBOT` plans one.""",
    ),
    _stop(
        "too little data",
        "too-few-samples too-few-blocks no-rows no-samples no-blocks empty-window unknown-trajectory no-window "
        "no-trajectory",
        """What was selected is empty, or shorter than filters or the method need.""",
        """Select more (`train`, `window` under `[data]`), or record longer.""",
    ),
    _stop(
        "a request to the local page from elsewhere",
        "foreign-host foreign-origin no-csrf-token token not-loopback",
        """The [local page](app.md) answers this machine alone, and those alone who opened the link with its token.""",
        """Open the link that `dynid app` printed at its last start; from another computer forward the port by ssh.""",
    ),
    _stop(
        "something that the local page cannot do now",
        "busy choice empty-experiment not-a-workspace not-confirmed not-found not-ready port port-taken too-many",
        """The [local page](app.md) keeps to its folder and its port, to so many files, projects and jobs, and starts
        a run only of a log that was checked as it is.""",
        """The message says which; `dynid app` takes another folder, and another port by `--port`.""",
    ),
    _stop(
        "refused for safety",
        "xml-doctype xml-depth xml-size toml-depth too-large too-many-links too-many-joints mjcf-hfield "
        "usd-size outside-root remote-file bag-path decompression metadata schema-name pickled mesh-size c-size "
        "xacro-unasked xacro-expression",
        """A file from a stranger may be made to fill memory, to read other files, or to run code: entities, deep
        nesting, thousands of links, pickles, paths outside the folder. Such files are refused.""",
        """Write the file out plainly. `--packages FOLDER` opens further folders, `--xacro` expands a file that is not
        named `.xacro`.""",
    ),
    _stop(
        "a robot that is no tree of joints",
        "cycle two-parents two-roots unknown-link unknown-parent duplicate-joint joint-type mimic-cycle root "
        "self-coupling follows driven-follower transmission",
        """Links and joints have to form one tree below one base, of hinges and slides.""",
        """`--root` and `--tip` choose a chain of it; `--lock` holds joints of other kinds.""",
    ),
    _stop(
        "constraints that no robot can meet",
        "constraints-in-conflict constraints-not-met constraint-failed constraint-nan body-limits box ellipsoid "
        "flat-hull half-space prior-strength prior-pull feasible-values feasible-shapes constraint-unnamed",
        """Limits under `[estimate]` contradict one another or the data, or are no numbers. The message says which
        have to give way, and by how much.""",
        """Correct or loosen them.""",
    ),
    _stop(
        "a problem that the solver did not solve",
        "not-solved l-curve no-strength not-simulable filter-diverged diverged singular-mass-matrix "
        "singular-instruments "
        "posterior-mode load-friction integration-error mujoco-refuses replay-diverged mass-matrix-asymmetric "
        "mass-matrix-indefinite bandwidth",
        """A simulated robot ran away, or a numerical problem has no answer that stands its checks. In fits and
        simulations, bodies that are not physically consistent are the usual cause; in `dynid payload`, logs that
        contradict each other or whose units are wrong.""",
        """Fit with the default first (`feasible`), and with its terms; simulate its result. Lower the cut-off, or
        give limits under `[estimate]`. For a payload, check units and mapping of both logs, and record a longer
        motion.""",
    ),
    _stop(
        "a run folder that cannot be opened",
        "not-a-run damaged-run run-format migrate-by-hand model-json no-factors no-residuals",
        """The folder holds no run, was changed, or is of another version.""",
        """`dynid migrate RUN` brings it to the present format; else identify again.""",
    ),
    _stop(
        "runs or logs that do not belong together",
        "different-robots same-data one-run nothing-to-pool one-part run-robot other-robot log-twice factor-columns "
        "factor-model nothing-known given-columns expected-mass",
        """They are of different robots or terms, of the same data, or there is only one.""",
        """Give runs of one robot, from recordings of their own.""",
    ),
    _stop(
        "an export that cannot be made",
        "export-differs export-format export-finite c-file-name no-rigid-body samples-ensemble ensemble-count "
        "ensemble-width thresholds-format table-header replay-window validate-ensemble no-inertia",
        """The format cannot hold the model, or the written file, read again, gave another torque.""",
        """The message names the format's limits. `.json` and `.c` hold every model.""",
    ),
    _stop(
        "a motion that cannot be planned",
        "infeasible infeasible-limits no-limits start-pose pose-limits poses resume plan-json plan-not-found plan-size "
        "plan-joints unidentifiable payload-recorded payload-model payload-mass mesh no-shapes shape "
        "limit-count limit-share limit-margin capsule capsules floor free-knots counts candidates channel-terms family "
        "focus format geometry noise prediction shrinkage sweep-speeds torque-sines torque-sines-model torque-spread "
        "urscript run rate precision rtde rtde-robot rtde-protocol clearance stage start tool-solid "
        "removed-option motion-format",
        """Limits, obstacles or the model leave no room for the motion, options contradict one another, or the plan
        of a log is not in it.""",
        """Give limits with the description or the options; start from fewer constraints and add them one by one.""",
    ),
    _stop(
        "static poses, springs and payloads that are not in the log",
        "no-poses no-statics wrong-pose pose-moves pose-tables statics-motion statics-channel "
        "standstill-settings no-springs springs-in-rigid-rows spring-search which-spring bound spring-geometry "
        "spring-label spring-weights payload-flange payload-inertia payload-rows payload-scale payload-tool "
        "reference-mass",
        """The log, the table or the options do not hold what the command looks for.""",
        """See [payload](payload.md), [elastic joints](elastic-joints.md) and the command's page.""",
    ),
    _stop(
        "a simulation that is not described",
        "controller coupling elasticity friction forward-model ideal-motion integrator mujoco-export mujoco-friction "
        "open-loop open-loop-samples open-loop-option parameters rigid rotor-inertia runs sensor simulate-memory "
        "simulator step stick-slip times torque-table trajectory unknown-body",
        """Plant, controller, sensors or trajectory contradict one another, or are incomplete.""",
        """See [simulation](simulation.md); `dynid simulate` takes its files.""",
    ),
    _stop(
        "a running log that cannot be followed",
        "watch watch-channels watch-output watch-rows watch-shape missing-signal kalman kalman-noise kalman-start "
        "too-long forgetting recursive-columns variance",
        """The stream lacks a channel, or the filter's options do not suit it.""",
        """`dynid watch` with `--filter rls` is the simplest; see [how to choose](how-to-choose.md#running-logs).""",
    ),
    _stop(
        "a mean over periods that do not repeat",
        "not-periodic period periods",
        """The motion does not repeat with the period that was given or found.""",
        """Give the period that was commanded, or leave the approach out.""",
    ),
    _stop(
        "a command of `dynid retrieve` or `reveal` that lacks something",
        "retrieve-method formula unknown-rule unknown-parameter",
        """A formula, rule or parameter is not known.""",
        """See [`dynid retrieve`](cli.md#dynid-retrieve).""",
    ),
)
SELF_EXPLANATORY = (
    _stop(
        "a fleet whose plan, folder or workers do not fit",
        "catalogue catalogue-columns catalogue-empty catalogue-time damaged-fleet factor fleet-format fleet-model "
        "model-option no-worker not-a-fleet scheduler-lost scheduler-unreachable unknown-type uri worker "
        "worker-version",
        """The plan lacks a column, a type or its model, the folder is of another fleet or version, or no worker of
        the same version answers. What is done stays done.""",
        """Mend what is named, and run the same command again: it goes on where it ended ([fleets](fleet.md)).""",
    ),
    _stop(
        "a description that is no valid file",
        "xml-syntax xml-truncated toml-syntax robot-format mjcf mjcf-fragment mjcf-attach include-twice usd "
        "xacro-argument no-links no-joints no-name joint-ends file-name package-missing no-example "
        "more-errors sdf-nested not-here",
        """The file does not parse, or lacks what its format asks for. Line and column are in the message.""",
        """Mend the file there. URDF in pieces is expanded by xacro: give the `.xacro` itself, with `--xacro
        NAME=VALUE`.""",
    ),
    _stop(
        "a file that is not there, or cannot be read or written",
        "file-missing file-unreadable cannot-write io name-too-long",
        """The path is wrong, the disk is full, or a permission is missing. Nothing half-written stays.""",
        """Check path, space and permissions.""",
    ),
    _stop(
        "an output that is there already",
        "output-exists output-is-input output-busy",
        """Nothing is overwritten unasked, an input never, and two commands do not write one folder.""",
        """Choose another `--out`, or `--force` to renew what dynid wrote there.""",
    ),
    _stop(
        "no memory left",
        "memory process-died",
        """The system ended the work or refused memory.""",
        """Close programs; logs longer than memory are read in pieces anyway.""",
    ),
    _stop(
        "a package that is not installed",
        "missing-package no-rosbags no-h5py no-openpyxl no-clarabel no-coal missing-plugin plugin-broken "
        "broken-installation kernel",
        """An optional package, a plug-in or the compiled kernel is missing or fails when it is imported.""",
        """The message has the `pip install` line; `dynid doctor` shows what is there.""",
    ),
    _stop(
        "numbers in a description that no robot has",
        "no-size negative-mass no-mass zero-axis limits-swapped negative-limit negative-rotor-inertia "
        "singular-transmission "
        "coupled-lock coupled-drive gear-ratio dh-rows mixed-convention no-convention two-rotations not-a-rotation "
        "two-sources linkage linkage-apart linkage-count linkage-limits unknown-inertia massless no-extent "
        "not-physical",
        """A mass, axis, limit, ratio or placement that cannot be.""",
        """Correct it at the line that is named.""",
    ),
    _stop(
        "a key or a value that the experiment file does not have",
        "unknown-key wrong-value missing-key unknown-option missing-option unknown-method option-range unknown-claim "
        "nothing-to-accept unknown-answer open-question unknown-source limits-format",
        """Every key has a kind, a unit and a range, and a misspelt one would change the result silently.""",
        """The message has the nearest name. `dynid schema --template experiment.toml` writes a file that editors
        check.""",
    ),
    _stop(
        "a wrong call",
        "array-shape not-a-robot scene-motion fleet-arguments no-motion no-output "
        "block-seconds bootstrap chain answer coulomb-width delay-about held-load "
        "duplicate-parameter elastic-form equation-shape false-alarm-rate feasible-inner fourier-numbers fourier-ramp "
        "friction-side-auto function-result gas-spring gravity harmonic horizon inertia-rows intervals "
        "iteration joint-coupling load-unknown lock method moves name-taken needs-samples no-friction no-log no-rate "
        "several-logs "
        "no-robot nominal nominal-unknown observer-cutoff observer-time on-motor one-a-joint open-inside "
        "positions posterior-count powers robot-axis robot-counts robot-finite robot-names robot-placement rotor-axes "
        "rotor-carriers rotor-compensation rounds rows-filter rows-hold rows-stick samples-extra samples-motor "
        "schema-template self-locking servo-count shape-values speed-limit spline-knots stribeck sweep-velocity "
        "selftest-elastic "
        "temperature-channel term-joints torque-motion torque-sinusoids trajectory-family trajectory-json tree-axis "
        "tree-order tuning unknown-friction unknown-function zero-about base-dynamics unknown-code",
        """A program, a file or a command line gave an argument that is none.""",
        """The message says what was expected.""",
    ),
    _stop(
        "a mistake in dynid",
        "internal",
        """Nobody foresaw this.""",
        """Send the file that the message names to those who keep dynid; it holds the command and where it failed,
        no data.""",
    ),
)


def has_more(code: str) -> bool:
    """Whether more is to be said of an error than its message has room for."""
    return any(code in one.codes for one in STOPS)
