"""What the codes of a run mean: of its verdict, its fit and choice, and of all that it was made from."""

from __future__ import annotations

from collections.abc import Mapping

from dynid.base.explanation import Explanation
from dynid.estimate.scores import RANGE_MARGIN, WORSE_BY_CHANCE
from dynid.run.links import DATAS, IMPLAUSIBLE
from dynid.run.verdict import (
    CONDITION_BAD,
    CONDITION_HIGH,
    FRICTION_SIGNIFICANCE,
    GOOD_R2,
    MOTION_REPEATS,
    MOVES_IN_STEP,
    OVERFIT_RATIO,
    PARTS_HELD_OUT,
    PRIOR_MANY,
    SAME_MOTION,
    USABLE_R2,
    VALUES_FEW,
)
from dynid.signals.effort_at_rest import FREE_PART, FRICTION, HELD, HELD_PART, MISSED
from dynid.signals.repetition import RETURNED
from dynid.signals.standing import BIN, BRIEF_BINS
from dynid.terms.catalogue import CATALOGUE

OF_VERDICTS = (
    Explanation(
        "not-validated",
        "nothing was held out",
        ("verdict",),
        """The model was scored on the data that it was fitted to, so nothing is known about other motions. The
        verdict is at best usable.""",
        """`dynid validate RUN OTHER_LOG` scores it on a log that it has not seen; leave `blocks` under `[data]` at
        its default and blocks of the same log are held out in turn.""",
    ),
    Explanation(
        "unscored-joint",
        "a joint without torque, or without variation of it",
        ("verdict",),
        """The torque of a joint does not vary in the held-out data, or was not measured, so that no share of it can
        be missed.""",
        """Hold out a motion in which this joint moves, with its effort in the log.""",
    ),
    Explanation(
        "joint-not-judged",
        "a joint at rest, or that moves but once, whose score says nothing of the model",
        ("verdict",),
        """A joint that stood still while others moved: friction at rest or its brake holds any part of the load, so
        that its measured torque hardly varies, or varies by what no model of the bodies has. Or it moves in one part of
        the log alone: held-out blocks with this motion are predicted by a fit that never saw its friction. Its R2 does
        not count in the verdict, which is at best usable in the second case.""",
        """Hold out a motion in which this joint moves, if its model matters; or record one in which it moves several
        times.""",
    ),
    Explanation(
        "useless-joint",
        "a joint that is predicted worse than by a constant",
        ("verdict",),
        """A constant torque would miss less than the model on this joint, which moves. The verdict is poor.""",
        """Look at its residual against velocity and position in the report; check sign, unit and order of its
        columns. Leave its model out until then.""",
        f"""Scored on motion that was not fitted, over blocks of time: the chance that a model as good as the constant
        misses so much more is below {WORSE_BY_CHANCE:g}.""",
    ),
    Explanation(
        "poor-joint",
        "a joint that is poorly predicted",
        ("verdict",),
        f"""R2 of a joint lies below {USABLE_R2:g} on held-out data: the verdict is poor. On a joint that gravity
        hardly loads (a wrist) friction is most of the torque, and a small error is a large share.""",
        """Look at its residual against velocity and position: another form of friction, a cable, an elastic joint.
        Compare the absolute error with what the model is for: 0.1 N m may be all you need.""",
        """Scored on motion that was not fitted.""",
    ),
    Explanation(
        "weak-joint",
        "a joint that is weakly predicted",
        ("verdict",),
        f"""R2 of a joint lies between {USABLE_R2:g} and {GOOD_R2:g} on held-out data: the verdict is at best
        usable.""",
        """Its residual plot shows what is missing: friction at low speed, elasticity, a cable.""",
        """Scored on motion that was not fitted.""",
    ),
    Explanation(
        "extrapolation",
        "scored outside the range of the training",
        ("verdict",),
        f"""The held-out motion goes farther or faster than the fitted one, by more than {100 * RANGE_MARGIN:g} % of
        its width. The model extrapolates there, friction above all.""",
        """Train on motion as far and as fast as the model is for: `dynid excite ROBOT --after RUN`.""",
    ),
    Explanation(
        "overfit",
        "worse on unseen data than in training",
        ("verdict",),
        f"""The held-out error is more than {OVERFIT_RATIO:g} times the training error: the model follows what is
        particular to the recorded motion.""",
        """Record a longer or richer motion. Or draw the fit towards the description: `method = "ridge"` under
        `[estimate]`.""",
    ),
    Explanation(
        "ill-conditioned",
        "directions that the motion hardly shows",
        ("verdict",),
        f"""The condition number is above {CONDITION_HIGH:g}: some combinations of parameters have wide intervals,
        though the torque of such motions is predicted well. Above {CONDITION_BAD:g} the log says next to
        nothing of them.""",
        """Move every joint through its range, several at once: `dynid excite ROBOT --after RUN` plans what is
        missing. If the model is for motions like the recorded one, nothing.""",
    ),
    Explanation(
        "from-description",
        "parameters that come from the description",
        ("verdict",),
        f"""The description says more of some base parameters than the log does. From {100 * PRIOR_MANY:g} % of them
        on that is a warning: the model is then to a good part what you gave it.""",
        """Record a longer motion in which every joint moves through its range; `dynid excite ROBOT --after RUN`
        plans one.""",
    ),
    Explanation(
        "little-data",
        "fewer independent values than parameters bear",
        ("verdict",),
        f"""The motion below the cut-off holds fewer than {VALUES_FEW:g} independent torques for each parameter (two
        a period of the cut-off and joint).""",
        """Record longer.""",
    ),
    Explanation(
        "not-excited",
        "base parameters that the motion does not show",
        ("verdict",),
        """Some base parameters cannot be separated from others, since joints stood still or moved alone. They are
        left out.""",
        """Move every joint through its range, several at a time, with changing acceleration: `dynid excite ROBOT
        --after RUN`.""",
        """By the rank of the equations' factor, beside the rank that the robot has on a rich motion.""",
    ),
    Explanation(
        "excited",
        "all base parameters were excited",
        ("verdict",),
        """The motion informs every direction that can be informed at all.""",
        """Nothing.""",
    ),
    Explanation(
        "exportable",
        "can be exported",
        ("verdict",),
        """All bodies are physically consistent, so that URDF, MJCF, SDF and C hold these very bodies. Springs of
        joints are in MJCF, SDF and C, and in no URDF.""",
        """`dynid export RUN --to model.urdf`.""",
        """Every pseudo-inertia is positive definite, and rotors, friction and stiffness are not negative.""",
    ),
    Explanation(
        "mass-not-said",
        "masses far from the description's that the data do not say",
        ("verdict",),
        f"""A link's mass is more than {IMPLAUSIBLE:g} times the description's, or that many times less, and the log
        decides less than {100 * DATAS:g} % of it: it followed what the log says of sums of masses. Torque is
        predicted with it; as a weight it means nothing.""",
        """Bound it, `[[estimate.limits]]` with `mass = [least, most]`, where it will be used alone. Look at findings
        on what the model lacks: that is what bends bodies.""",
        """By the share of the mass that the data decide, the description being the prior.""",
    ),
    Explanation(
        "mass-open",
        "masses that may be anything from zero up",
        ("verdict",),
        """The description gives no masses, and the 95 % interval of these holds zero: the log determines them together
        with others' alone. Torque is predicted well with any of these splits.""",
        """Nothing for prediction and control of this arm. For masses give a description that has them, or limits:
        `[[estimate.limits]]`.""",
    ),
    Explanation(
        "not-exportable",
        "can be exported, but as another model",
        ("verdict",),
        """The identified bodies are no bodies: a mass is negative, or an inertia. Exports hold the physically
        consistent ones that the data like best, and `dynid export` says by how much their torque differs, joint
        by joint.""",
        """Under one percent is harmless. Much more says that parameters follow noise, or that something is
        missing: look at the other findings first.""",
    ),
    Explanation(
        "model-chosen",
        "which model was chosen",
        ("verdict",),
        """Without terms of your own the log chooses friction, rotors, couplings and faults of the log itself on
        held-out blocks. The finding says what was chosen on each question.""",
        """Nothing. The report's section Model choice says what each effect is worth.""",
        """An effect joins where it gains two standard errors on held-out blocks; a fault of the log needs three.""",
    ),
    Explanation(
        "friction-chosen",
        "which friction was chosen",
        ("verdict",),
        """Forms of friction were compared joint by joint on held-out blocks, and the finding says which earned
        their place.""",
        """Nothing; or leave out the form that did not earn its place.""",
        """A form has to predict held-out blocks better by more than one standard error.""",
    ),
    Explanation(
        "not-converged",
        "the fit did not converge",
        ("verdict",),
        """The estimator stopped before its steps were small. Often one joint is fitted without any residual, as in
        a simulated log.""",
        """`method = "ols"` under `[estimate]`, or a longer log.""",
    ),
)
OF_FITS = (
    Explanation(
        "negative-stiffness",
        "a spring that pulls on",
        ("doubt", "error"),
        """A stiffness is negative beyond doubt. Springs push back, so a sign, a geometry or an encoder is wrong.
        As an error: the description itself has a stiffness below zero.""",
        """Check the spring's geometry (joint, points, angle and its unit) and the sign of the effort. Between
        motor and link: whether both encoders of this joint are exchanged under `[log]`.""",
        f"""The value lies {FRICTION_SIGNIFICANCE:g} standard deviations below zero.""",
        """Accept it where the mechanism really is unstable, as a counterbalance past its dead centre.""",
    ),
    Explanation(
        "encoders-exchanged",
        "motor and link encoders exchanged",
        ("doubt",),
        """The stiffness of every joint between motor and link is negative: the deflection has the other sign, as
        when both encoders are exchanged.""",
        """Exchange the columns of `position` and `motor_position` under `[log]`, or check the sign of the effort.""",
        """All stiffnesses lie beyond doubt below zero; if only some do it is `negative-stiffness`.""",
        """There is hardly a good reason to.""",
    ),
    Explanation(
        "command-delay",
        "how late commands act",
        ("note", "warning"),
        """Commands in place of a torque act some time after they were logged. The delay was found and taken into
        account; the message has its interval. As a warning: no delay up to 0.1 s fits best.""",
        """Nothing for the note. For the warning bring commands and measurements on one clock, or give
        `drive.delay`.""",
        """Taken is the delay at which the commanded torque fits the plain model best, and in logs with rows of 10 ms
        or more the one at which the simulated robot follows its commands as the log does. Its interval comes from
        blocks of time.""",
    ),
    Explanation(
        "command-loop",
        "where position loops are taken to be closed",
        ("note",),
        """A computer that reads positions and sends torques delays the whole torque; a drive that closes the loop on
        board compares late commands with a motion that is not late. The log does not say which. The other reading has
        another viscous friction, by about the stiffness kp times the lag, which the message names.""",
        """Declare it: `--loop drive`, `--loop computer`, or `loop` under `[drive]` of the experiment or of a robot
        TOML.""",
        """Logs with rows of 10 ms or more are taken as of drives that close their own loops, faster ones as of a
        computer.""",
    ),
    Explanation(
        "held-in-part",
        "a joint that a brake or friction holds for a time",
        ("warning",),
        """The joint moves elsewhere in the log. Here it stands still, throughout a trajectory or for a second or more
        of one, as after an emergency stop, and what its motor gives is not the torque of what it carries: a brake holds
        it, or friction at rest carries a part. Its position is used, its equation is left out of fit and scores there.
        Where no joint's equation is left, the time counts as `stopped by brakes` among what scores leave out.""",
        """Nothing, if the brake was on. If the joint moved, its encoder was dead there: leave these times out (`train`
        and `window` under `[data]`).""",
        f"""Throughout a trajectory the effort is kept where bodies that are fitted to it and to the moving joints of
        the same trajectory explain nine tenths of its variance on blocks of time that were left out: of a joint that a
        servo holds they do. For a part of one it is kept unless bodies fitted to all joints in motion miss it by more
        than {MISSED:g} times what they miss in motion and {FRICTION:g} times the joint's Coulomb friction. The times
        left out reach back to where the effort became what it is at rest, since brakes take the last of the motion.""",
    ),
    Explanation(
        "held-by-friction",
        "a joint that friction holds at rest",
        ("note",),
        """Friction at rest may take any value up to its limit, and holds a part of what the joint carries. An equation
        of a joint at rest says then no more of its load than that limit allows, and a fit to such equations bends
        masses and friction to them. They are left out of the fit while the joint stands, whether others move as in
        picking and placing or not, and for a period of the filter before and after. Among what scores leave out they
        are counted as `joints that friction holds`. The figures of all samples hold them.""",
        """Nothing. `--rest 0`, or `rest = 0` under `[prepare]`, keeps every sample at rest, of all joints.""",
        f"""Bodies and friction that are fitted to all joints in motion miss the joint's effort in its
        stands of {BIN * BRIEF_BINS:g} s or more by {HELD:g} times what they miss in motion, and by
        {100 * HELD_PART:g} % of its Coulomb friction, less what the fit does not know. Where they do not, as of
        drives whose effort at rest is what the joint carries, the equations stay. A joint that moves too little for
        this comparison is taken to be held where most joints that stand are.""",
    ),
    Explanation(
        "free-at-rest",
        "efforts at rest with little or no friction",
        ("note",),
        """Where all joints stand, efforts are those of the bodies alone: a torque sensor lies behind the gear, or the
        log is simulated without friction at rest. Stands say then what the bodies weigh, in postures of their own, and
        how joints come to rest, and count in fit and scores as motion does; where friction holds a small part, half a
        period of the filter in the middle of each counts in the fit. Otherwise samples at rest are left out, since
        friction may take any value up to its limit.""",
        """Nothing. `--rest 0`, or `rest = 0` under `[prepare]`, keeps every sample at rest.""",
        f"""Bodies and friction that are fitted to all joints in motion miss the effort of every joint that is
        compared, more than half of them, in its stands of {BIN * BRIEF_BINS:g} s or more by less than {HELD:g} times
        what they miss in motion, or less than {100 * FREE_PART:g} % of its Coulomb friction, less what the fit does not
        know; most of them by less than {100 * HELD_PART:g} %, or friction is taken to hold a small part. Friction that
        settles anywhere up to its limit misses 60 % of itself.""",
    ),
    Explanation(
        "joint-at-rest",
        "a joint that never moved",
        ("warning",),
        """Its friction and rotor inertia are not identified, and of the bodies behind it only what other joints
        show: the model says nothing of motion in which it moves, and the verdict is at best usable. Its score does not
        count. Where its effort is not the torque of what it carries, a brake
        or friction held it, or its encoder is dead.""",
        """Move it. Or hold it for good with `--lock JOINT=VALUE`, which makes it no joint of the model. If it did move,
        its encoder was not read: record anew.""",
    ),
    Explanation(
        "model",
        "which model was chosen",
        ("note",),
        """How many models were compared on held-out blocks, and the chosen answer to each question.""",
        """Nothing. The report's section Model choice says more.""",
    ),
    Explanation(
        "effects-left-out",
        "effects of the log that were chosen and left out again",
        ("note",),
        """A lag, gain, zero or lean predicted held-out blocks better, but in the fit that is reported its 95 % interval
        holds zero: beside physically consistent bodies it is something else, which the model lacks.""",
        """Nothing, unless you know of such a fault; then name its term under `[model]`.""",
    ),
    Explanation(
        "model-not-chosen",
        "the default model, as it is",
        ("warning",),
        """The method that was asked for works on every sample, so the model was not chosen by the log first: the
        default terms were fitted.""",
        """Run without a method first and give the terms that it chose, or say `--auto`.""",
    ),
    Explanation(
        "too-short-to-choose",
        "too little data to compare models",
        ("warning",),
        """There are too few blocks of time to compare models on, or most joints move in one block alone, so that
        without it nothing is known of their friction; the default model is kept.""",
        """A longer log in which every joint moves at several times, a smaller `block_seconds`, or terms of your
        own.""",
    ),
    Explanation(
        "too-short-to-hold-out",
        "too little data to hold any out",
        ("warning", "error"),
        """With so few blocks of time, or with joints of which most move in one block alone, nothing can be left out and
        predicted. As an error: what was asked for, such as a comparison, takes held-out blocks.""",
        """`--validate OTHER_LOG`, or a longer log in which every joint moves at several times.""",
    ),
    Explanation(
        "folds",
        "fewer folds than usual",
        ("note",),
        """The log has fewer blocks of time than folds were wanted.""",
        """Nothing, or a longer log.""",
    ),
    Explanation(
        PARTS_HELD_OUT,
        "parts of a motion that repeats, held out of every repetition",
        ("note",),
        """The motion is gone through again and again, as in most excitation experiments. What a model lacks is the same
        in every repetition, so that blocks of one repetition, predicted by a fit to the others, would say nothing of
        it. The motion is cut into parts, and each is held out of all repetitions together; models are compared on what
        they miss of each part. Where pauses last otherwise in each repetition, they do not count as time of the
        motion.""",
        """Nothing. Another motion is further away still: `--validate OTHER_LOG`.""",
    ),
    Explanation(
        SAME_MOTION,
        "held-out recording of the motion of the training",
        ("note",),
        """The log that is held out goes through the motion that the model was fitted on: the same excitation, played
        again. What the model lacks is the same in both, so that the score tells noise and drift from model, but hardly
        how far the model is off on another motion.""",
        """`--validate OTHER_LOG`, of another motion: ten seconds say more than ten repetitions.""",
        f"""Positions of all joints, in standard deviations, come within {RETURNED:g} of the training's at half of
        the samples in motion or more, at one shift in time.""",
    ),
    Explanation(
        MOTION_REPEATS,
        "held-out blocks of a motion that repeats",
        ("note",),
        """The motion is gone through again and again, in so short a time, or in so many recordings, that its parts
        cannot be held out of every repetition (or `block_seconds` is given, and too long). The blocks that are held out
        hold motion that the model was fitted on a repetition before: their score tells noise from model, but hardly how
        far the model is off on another motion. On simulated arms whose model lacked a spring or a linkage it was a half
        to a tenth of that.""",
        """`--validate OTHER_LOG`, of another motion: ten seconds say more than ten repetitions.""",
    ),
    Explanation(
        MOVES_IN_STEP,
        "joints that move in step",
        ("warning",),
        """The joints' velocities lie in half of the directions of their space or fewer, as where a snake undulates,
        legs walk, or an arm goes to and fro between two poses. Torque that follows one joint's motion is then as well
        put down to another's: the model fits such motion, held-out blocks of it included, and may miss another motion
        by more than its torque. The verdict is at best usable.""",
        """Move the joints independently of each other: `dynid excite` plans it. Or hold out another motion,
        `--validate OTHER_LOG`, which says what the model is worth.""",
        """Eigenvalues of the correlation of the joints' velocities are counted from 1 % of their mean on. A simulated
        snake of 12 joints in a wave along 2 directions: 3 % of held-out blocks missed, and six times the torque of
        another wave.""",
    ),
    Explanation(
        "shapes-not-held-out",
        "equations that cannot be held out",
        ("warning",),
        """These rows have no equation of single joints, so that nonlinear friction cannot be scored on held-out
        blocks.""",
        """`--validate OTHER_LOG`.""",
    ),
    Explanation(
        "held-out-gone",
        "the held-out log is not there any more",
        ("warning",),
        """The logs that the run was validated on were moved or changed, so unseen motion cannot be scored again.""",
        """Put them back, or name one with `--validate`.""",
    ),
    Explanation(
        "training-is-validation",
        "held-out data that was fitted",
        ("warning",),
        """The log given for validation served for fitting as well, so its scores are called training.""",
        """Give another log or other parts of it.""",
        """Files are compared by their contents (SHA-256), rows and times.""",
    ),
    Explanation(
        "no-scale",
        "drive gains without a known mass",
        ("warning",),
        """All drive gains are free, and nothing of known mass fixes their scale: all parameters share one unknown
        factor.""",
        """Add `known_payload`, or take one gain from the data sheet.""",
    ),
    Explanation(
        "rows",
        "which equations were fitted",
        ("note",),
        """Torque, momentum, power or elastic equations, and why.""",
        """Nothing; `rows` under `[model]` chooses otherwise ([how to choose](how-to-choose.md#rows)).""",
    ),
    Explanation(
        "states-low-passed",
        "positions that are low-passed where the motion ends",
        ("note", "warning"),
        """The filters let so much noise through that positions and velocities are smoothed at the motion's end. A
        warning where you had asked for another cut-off.""",
        """Leave `cutoff` and `state_cutoff` at auto, or name the rows.""",
    ),
    Explanation(
        "noisy-accelerations",
        "accelerations that are mostly noise",
        ("warning",),
        """At this cut-off the second derivative of the position is noise. Equations without accelerations are
        fitted, but scores and inertias need them.""",
        """Leave both cut-offs at auto, or log a finer position.""",
    ),
    Explanation(
        "not-consistent",
        "bodies that cannot be made physically consistent at a fair price",
        ("warning",),
        """Physically consistent bodies would predict left-out blocks more than 1.2 times as far off, all joints
        counting alike, and miss more of the torque itself, or the solver found none. The estimate without
        constraints is kept: only combinations of its parameters have a meaning. Exports hold the consistent bodies.
        An estimate whose mass matrix is not positive definite is kept only where the bodies explain some joint's
        torque badly (R2 below 0.95).""",
        """Something is missing from the model or wrong in the description: see
        [`likely-cause`](findings.md#likely-cause). Where limits are named, loosen or correct them.""",
        """Both are fitted, and compared on blocks that were left out.""",
    ),
    Explanation(
        "consistency-costs",
        "physical consistency costs some accuracy",
        ("warning",),
        """Physically consistent bodies fit a joint 1.2 times as badly, and predict left-out blocks a little worse.
        They are kept, and the constraints in force are named. Where they predict much worse and are kept, that is
        of light joints alone, and of the torque of all together they miss less; or the estimate without
        constraints has a mass matrix that is not positive definite, as slow motion leaves it: it would be wrong by
        multiples of the torque on faster motion.""",
        """Nothing has to be done: scores and exports are those of the bodies that are kept. A rotor, a hand or load,
        a drive gain or a lean of the base that the model lacks may be behind it; where one of them is,
        [`likely-cause`](findings.md#likely-cause) names it.""",
        """Both are fitted, and compared on blocks that were left out.""",
    ),
    Explanation(
        "constraints-cost",
        "what was asked for costs accuracy",
        ("warning",),
        """Limits, a prior or its strength make a joint fit 1.2 times as badly as without them. The verdict is at
        best usable.""",
        """Loosen what the message names, or look for what the model lacks.""",
    ),
    Explanation(
        "one-encoder",
        "a spring between motor and link, and one encoder",
        ("warning", "error"),
        """The joint is identified as rigid: its stiffness and damping are lost, and vibration counts as error. As
        an error: what was asked for takes both encoders.""",
        """Map the second encoder as `motor_position` under `[log]`, or keep the cut-off below the first resonance.""",
    ),
    Explanation(
        "stiffness",
        "what deflection and torque say of the stiffness",
        ("note",),
        """The range of stiffness between both regressions, of deflection on torque and of torque on deflection.""",
        """Nothing.""",
    ),
    Explanation(
        "stiffness-disputed",
        "two answers for the stiffness",
        ("warning",),
        """The equations of motion give another stiffness than deflection against torque: hysteresis, play, or an
        error of an encoder.""",
        """Trust the wider range. Load the joint slowly from both sides to see the hysteresis.""",
    ),
    Explanation(
        "edited-run",
        "a run folder that was changed",
        ("warning",),
        """A file of the run folder is not what dynid wrote, by its checksum.""",
        """Identify anew, or trust who edited it.""",
    ),
)


def sections_of_runs() -> Mapping[str, tuple[Explanation, ...]]:
    """What a run may say, by subject, of the effects that are known now."""
    from dynid.choose.consistency_cause import EXPLANATION as OF_CAUSES
    from dynid.diagnosis.explanations import EXPLANATIONS as OF_RESIDUALS
    from dynid.log.explanations import EXPLANATIONS as OF_LOGS
    from dynid.robot.explanations import EXPLANATIONS as OF_ROBOTS
    from dynid.signals.explanations import EXPLANATIONS as OF_SIGNALS

    kinds = CATALOGUE.values()
    groups = dict.fromkeys(kind.group.explanation for kind in kinds if kind.group is not None)
    of_terms = dict.fromkeys(one for kind in kinds for one in kind.explanations)
    effects = (*of_terms, *OF_RESIDUALS, *(one for one in groups if one is not None))
    return {
        "Doubts and effects": tuple(sorted(effects, key=lambda one: ("doubt" not in one.kinds, one.code))),
        "The verdict": OF_VERDICTS,
        "Fit and model": (*OF_FITS, OF_CAUSES),
        "The log": (*OF_LOGS, *OF_SIGNALS),
        "The description": OF_ROBOTS,
    }


def explanation(code: str) -> Explanation | None:
    """Of a code that a run may hold; None where nobody explains it."""
    # Most runs have no other codes than these, and need neither the effects nor the checks of logs and descriptions.
    for one in (*OF_VERDICTS, *OF_FITS):
        if one.code == code:
            return one
    return next((one for every in sections_of_runs().values() for one in every if one.code == code), None)
