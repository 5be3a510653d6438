"""Every code that dynid prints, and what it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from dynid.base.errors import UsageError
from dynid.base.explanation import Explanation
from dynid.run.explanations import sections_of_runs
from dynid.verbs.stops import SELF_EXPLANATORY, STOPS

__all__ = ["explain", "sections"]

OF_MOTIONS = (
    Explanation(
        "limits-raised",
        "a plan beyond the description's limits",
        ("warning",),
        """Limits that you gave are wider than the description's.""",
        """Make sure that the robot may.""",
    ),
    Explanation(
        "expected-intervals",
        "a run whose residuals are more than noise",
        ("warning",),
        """A motion to be recorded after a run is designed as if the run's residuals were noise. Those of these joints
        stay alike over far longer than noise behind the run's filter: the model lacks something there, by an amount
        that the next motion changes. `dynid watch` counts rows that are alike as one, so that it says `enough`
        later.""",
        """Record the motion all the same, and find what the model lacks: the report's diagnosis, or the default choice
        of the model in place of given terms.""",
        """Without rotor inertias in the model of a simulated arm, intervals came out 0.9 to 1.7 times as wide as
        expected; with them, 0.87 to 1.03 times.""",
    ),
    Explanation(
        "plan-incomplete",
        "part of the plan is not in the log",
        ("warning",),
        """The recording began late or ended early.""",
        """Log until the robot stands still again. What is there can be identified.""",
    ),
    Explanation(
        "plan-tracking",
        "a joint that moved far beside the plan",
        ("warning",),
        """The controller did not follow. Identification uses what was measured, but limits and collisions were
        checked for the plan alone.""",
        """Look at the controller, or plan with less speed (`velocity` under `[limits]` of the plan file).""",
    ),
    Explanation(
        "plan-delay",
        "a joint that started earlier or later than the others",
        ("warning",),
        """Its motion fits the plan best some milliseconds off the common start.""",
        """Send one trajectory to all joints, with one clock.""",
    ),
    Explanation(
        "shape-unread",
        "a body's shape that cannot be read",
        ("warning",),
        """`dynid limits` leaves the body out.""",
        """Mend the mesh, or write the body's limits by hand
        ([`[[estimate.limits]]`](experiment.md#estimatelimits)).""",
    ),
)
OF_LOADS = (
    Explanation(
        "other-arm",
        "a log that the run does not explain",
        ("doubt",),
        """Even with the best payload the run's model misses most of the torque: the log is of another arm, or its
        mapping or units differ.""",
        """Check which robot, mapping and units the log belongs to.""",
        """The figure is the error of the loaded log with the load that fits best.""",
        """Accept it if you want to see the load all the same.""",
    ),
    Explanation(
        "no-payload",
        "a mass that does not differ from none",
        ("warning", "error"),
        """The 95 % interval of the load's mass holds zero; its upper end is the most that it may be.""",
        """A heavier load, or more poses in which gravity acts on it.""",
        """[Payload](payload.md) has the coverage of these intervals.""",
    ),
    Explanation(
        "payload-open",
        "a mass that the motion does not determine",
        ("warning",),
        """No joint feels the load's mass, or hardly: where joints only turn about axes through the load's frame, or the
        load's weight is carried by the axes, torque has mass times distance of the load and its inertia, not its mass.
        Centre and inertia about it divide by the mass and are not determined either.""",
        """Take the moments about the joint frame that are printed with it, and weigh the load; or record a motion of a
        joint that lifts or shifts the load's frame.""",
        """Not determined is what the logs leave at 90 % or more of the variance that it has without them.""",
    ),
    Explanation(
        "payload-views",
        "answers for the mass that disagree",
        ("warning",),
        """The load's weight, its inertia and the run's prediction do not give one mass: the model lacks something
        that looks like a load.""",
        """Record with and without the load on the same day, warmed up.""",
        """The intervals of two views do not overlap.""",
    ),
    Explanation(
        "unloaded-log-gone",
        "the log without the load is not there",
        ("warning",),
        """The run's log was moved or changed, so that a lean of the base and friction by load are estimated in the
        loaded log alone.""",
        """Put it back, or name one with `--without`.""",
    ),
    Explanation(
        "static-offset-unknown",
        "poses that were reached from one side only",
        ("warning",),
        """Friction at rest offsets their torque by an unknown amount.""",
        """Reach each pose from above and from below: the mean of both is free of it.""",
    ),
    Explanation(
        "static-one-sided",
        "torques of poses that are not used",
        ("note",),
        """Poses that a joint reached from one side only are left out where others were reached from both.""",
        """Nothing.""",
    ),
    Explanation(
        "friction-side",
        "where friction sits",
        ("note", "error"),
        """Friction at the joints and at the motors were compared on held-out blocks, as `--friction-side both`
        asks. As an error: it is none of joint, motor and both.""",
        """Nothing.""",
    ),
)
OF_EXPORTS = (
    Explanation(
        "export-left-out",
        "what the format cannot hold",
        ("warning",),
        """Some terms of the model have no place in this format, and are left out: the exported model is a little
        another.""",
        """For springs of joints take the format that the message names. `.c` holds most effects and `.json` all of
        them; or add the effect in your program by hand.""",
    ),
    Explanation(
        "export-straightened",
        "friction curves that became straight lines",
        ("warning",),
        """URDF, MJCF and SDF know viscous and Coulomb friction alone: curves were replaced by the closest of
        these, off by what the message says (r.m.s.).""",
        """Export to `.c` if that is too much.""",
    ),
    Explanation(
        "export-consistent",
        "the closest physically consistent bodies",
        ("warning",),
        """The run's own bodies are not physically consistent. The closest ones that are, by the fitted data, are
        written, and the message says by how much their torque differs, joint by joint.""",
        """Under one percent is harmless. Else look for what the model lacks
        ([`likely-cause`](findings.md#likely-cause)).""",
    ),
    Explanation(
        "export-shared",
        "parts that do not fit into what was identified",
        ("warning",),
        """Parts that are fixed to a body have more mass or inertia, in the description, than a possible body leaves
        them of all that was identified there. They are written with a share of it, the body with the rest: both
        together are as identified.""",
        """Nothing where they weigh less than was identified: the log does not show how centre and shape are shared
        out. Where they weigh more, take out of the description what the robot did not carry, and identify again. Where
        it did carry it, the description's weight of it is wrong, or the torque's scale is.""",
    ),
    Explanation(
        "unphysical",
        "bodies that are not physically consistent, written or refused",
        ("warning", "error"),
        """As a warning: they were written, since `--allow-unphysical` asks for them. As an error: they were
        refused, since simulators may diverge with them.""",
        """Export without `--allow-unphysical`: the closest physically consistent bodies are written.""",
    ),
    Explanation(
        "mjcf-new",
        "a new MJCF file",
        ("warning",),
        """The file of the description cannot be changed in place (includes, defaults that bodies share), so that a
        new one was written: without shapes, sensors and actuators.""",
        """Carry them over by hand.""",
    ),
    Explanation(
        "absent-shapes",
        "shapes that are not written",
        ("warning",),
        """Meshes, textures or height fields that the description names do not exist, or MuJoCo refuses one. URDF
        and MJCF are written without the shapes that they show; the dynamics are unchanged.""",
        """Put the files where the description names them, and export again.""",
    ),
    Explanation(
        "calibration-turn",
        "zero offsets that a calibration file does not hold",
        ("warning",),
        """A LeRobot calibration was written, but not all of what was asked for: the range of the motor that is named
        would leave the turn of its encoder, or the model has no zero offsets (`calibration-same`).""",
        """Write the offset as `offset` under `[log.position]`; or identify with `--auto`, which looks for zero
        offsets.""",
        also=("calibration-same",),
    ),
    Explanation(
        "urdf-gravity",
        "gravity that URDF cannot hold",
        ("warning",),
        """The model's gravity is not (0, 0, -9.81) m/s^2, and URDF has none.""",
        """Set it in the program that reads the file.""",
    ),
)


def sections() -> Mapping[str, tuple[Explanation, ...]]:
    """All explanations by subject."""
    return {
        **sections_of_runs(),
        "Motions": OF_MOTIONS,
        "Payloads and static poses": OF_LOADS,
        "Exports": OF_EXPORTS,
        "Errors": (*STOPS, *SELF_EXPLANATORY),
    }


def explain(codes: Sequence[str]) -> tuple[Explanation, ...]:
    """What codes mean, in the order given; raises UsageError for one that nobody explains."""
    known = {code: one for every in sections().values() for one in every for code in one.codes}
    for code in codes:
        if code not in known:
            near = get_close_matches(code, known, n=1)
            raise UsageError(
                "unknown-code",
                found=f"'{code}'",
                expected="a code as it stands in brackets: doubt[CODE], warning[CODE], error[CODE]",
                do=f"did you mean '{near[0]}'?" if near else "dynid explain lists all of them",
            )
    return tuple(known[code] for code in codes)
