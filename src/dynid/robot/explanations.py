"""What the codes of descriptions mean."""

from __future__ import annotations

from dynid.base.explanation import Explanation
from dynid.robot.link_checks import FILLED_IN, FILLED_IN_SHARE, SLIGHT

EXPLANATIONS = (
    Explanation(
        "inertia-not-psd",
        "an inertia that no body has",
        ("warning", "error"),
        """A described inertia has a negative principal moment. It is no body's, and a simulator may refuse it.""",
        f"""Correct the description: a sign of a product of inertia, a unit (g mm^2), or a tensor about the joint
        given as one about the centre of mass. The nearest possible inertia is the prior; if the inertia about
        the joint is negative by more than {100 * SLIGHT:g} % of its greatest moment, the file is refused.""",
    ),
    Explanation(
        "triangle-inequality",
        "principal inertias that belong to no body",
        ("warning",),
        """The greatest principal moment of inertia exceeds the sum of the other two, which no distribution of mass
        has.""",
        """Correct the description, or ignore it: the nearest possible inertia is the prior, and the log decides.""",
    ),
    Explanation(
        "zero-mass",
        "a moving link without mass",
        ("warning", "error"),
        """A link that moves has mass 0: usually an exporter's way to say that nobody knew.""",
        """Give its mass if you know it. Otherwise nothing: it has no prior, and the log decides. In MJCF a body of
        no mass that moves and carries nothing heavy is an error, since MuJoCo refuses it as well.""",
    ),
    Explanation(
        "inertial-missing",
        "nothing is known of a body's mass",
        ("warning",),
        """The description has no mass for a moving body. Sizes, signs and loads cannot be checked against it, and
        directions that the log does not show stay open.""",
        """Nothing, or add a rough mass and box: even a guess to a factor of two makes checks of units and signs
        possible.""",
    ),
    Explanation(
        "inertial-placeholder",
        "masses and inertias that were filled in",
        ("warning",),
        """Several links have the same mass, and the same inertia about every axis: values that somebody or some program
        filled in, so that the file could be loaded. They are taken as not known; checks of sizes, signs and loads
        against them would say nothing of the log.""",
        """Give the masses and inertias that you know. Otherwise nothing: the log decides.""",
        f"""At least {FILLED_IN} links, and {100 * FILLED_IN_SHARE:g} % of those with mass. Equal links that were drawn
        or weighed have other inertias about their length than across it.""",
    ),
    Explanation(
        "world-link",
        "a link that no <link> declares: the world",
        ("warning",),
        """A joint hangs on `world`, which some programs know without a `<link>` of that name, and others do not. It is
        taken as what stands still.""",
        """Add `<link name="world"/>`, so that every program reads the file.""",
    ),
    Explanation(
        "axis-length",
        "a joint axis that is no unit vector",
        ("warning",),
        """It was normalised.""",
        """Check the axis: `1 1 0` may have been meant as `1 0 0`.""",
    ),
    Explanation(
        "limit-missing",
        "a joint without limits",
        ("warning",),
        """The description has no position limits for it: it is taken as unlimited.""",
        """Add `<limit>`, above all before `dynid excite`, which keeps motions inside of it.""",
    ),
    Explanation(
        "free-base",
        "a floating base that is held still",
        ("warning",),
        """Logs hold joints alone, so the base of a legged or mobile robot is taken to stand where the description
        puts it. It is right if the robot hung or stood still and level.""",
        """`--gravity=GX,GY,GZ` in the base frame if it stood otherwise. Leave out the times at which it walked.""",
    ),
    Explanation(
        "joint-held",
        "joints that are held at one position",
        ("warning", "note"),
        """The description has joints that the log does not have (a hand, a gripper), or that you locked, or whose
        effort says nothing: it is missing, never changes (a gripper's force that is told and not measured), is not the
        torque of what they carry where they stand (a brake or friction holds them), or nothing that they carry or that
        carries them moved either (the other arm, the legs on their stand). Their bodies move with the link before them;
        motion of their own is left out.""",
        """`--lock JOINT=VALUE` where they stood elsewhere than the message says.""",
        """An effort at rest is kept where bodies that are fitted to it and to the moving joints explain nine tenths of
        its variance on blocks of time that were left out: of a joint that a servo holds they do.""",
    ),
    Explanation(
        "joint-unmeasured",
        "a joint that moves without an effort",
        ("warning",),
        """The log has this joint's position, and no effort: its column is absent or empty, or holds one value
        throughout, zero for one. It carries joints with an effort, whose torque depends on its motion, or turns within
        its limits as a jaw does, so that its motion is used; its own equation is left out. The same holds of a gripper
        whose effort is not the torque of its motion: it is what it grips with, or was told to. Its friction and rotor
        inertia stay as described, its torque is not scored, and what it alone would say of the bodies is missing.""",
        """Map its effort under `[log]` if there is one. If it stood still in truth, `--lock JOINT=VALUE`.""",
        """Other joints without an effort that carry none with one are held ([`joint-held`](findings.md#joint-held)):
        those that slide, stood still, are more than two, or leave their limits, as openings from 0 to 255 do.
        Where several joints share motors, every effort is needed (`no-effort`). A gripper's effort is kept where bodies
        fitted to it and to the arm explain half of its variance on blocks of time that were left out. Hands are told by
        the names of their joints.""",
    ),
    Explanation(
        "held-elsewhere",
        "a joint that a model holds and that is elsewhere in a log",
        ("warning",),
        """The model was identified with this joint held, by a brake say. In this log the joint moves, or stands more
        than 0.05 rad or m from there, so that the model predicts the torque of another pose.""",
        """Score the model on logs in which the joint stands where it stood, or identify it from one in which it
        moves.""",
    ),
    Explanation(
        "mimic-missing",
        "a joint that follows one that does not exist",
        ("warning",),
        """A `<mimic>` names no moving joint of the file. It is taken as a joint of its own, which then needs
        columns.""",
        """Name an existing joint, or hold it: `--lock JOINT=VALUE`.""",
    ),
    Explanation(
        "mjcf-left-out",
        "parts of an MJCF file that the model does not hold",
        ("warning",),
        """Gravity compensation, fluid forces, tendons, constraints, springs that yield or harden: what rigid-body
        dynamics from logs of joints does not describe. If the motion depends on them, the model misses it. The
        stiffness of joints is read: it is what is known beforehand of a `torsion_spring`, which every model has that
        is chosen automatically.""",
        """Check that the robot does not have them. Or add a term: `torsion_spring` for a tendon over several joints
        (`joints` and `weights`), `spring` for a tendon between two sites. A tendon that drives joints is a
        [transmission](robot-file.md) of the robot file.""",
    ),
    Explanation(
        "closed-loop",
        "joints in a loop that a constraint closes",
        ("warning",),
        """An MJCF's `<connect>` or `<weld>` between two bodies, as of a four-bar linkage or a parallel gripper, carries
        a load beside the tree of joints. Its force is no part of the model. It acts on both bodies with opposite signs:
        the joints that carry one of them alone feel it, and their torque is missed; those that carry both, and all
        other branches, do not.""",
        """Use the model for the torque of motions like those of the log, and not the masses of bodies in the loop,
        which make up for its force. A gripper's joints are best held: `--lock JOINT=VALUE`; one branch of the loop by
        itself is taken with `--tip LINK`.""",
    ),
    Explanation(
        "usd-left-out",
        "a joint that is no part of the articulation",
        ("warning",),
        """Joints that USD excludes from the articulation close loops, which a tree has not: it was left out.""",
        """Where it moves the arm (a parallelogram), describe it as a coupling of the drives.""",
    ),
    Explanation(
        "mesh-missing",
        "meshes that are not there",
        ("note", "error"),
        """Mesh files that the description names were not found. Identification does not read them. As an error:
        shapes were asked for.""",
        """Nothing, unless you want `dynid limits` or `dynid excite`: then put them beside the file, or
        name the folder of their package with `--packages`.""",
    ),
    Explanation(
        "mesh-outside",
        "meshes outside the description's folder",
        ("note",),
        """Nothing outside the folder of the description is opened, for safety: a file from a stranger could name
        any path.""",
        """`--packages FOLDER` names further folders that may be read.""",
    ),
    Explanation(
        "mesh-remote",
        "meshes on a network",
        ("note",),
        """Nothing is fetched from a network.""",
        """Download them, if you need shapes.""",
    ),
    Explanation(
        "xacro",
        "what xacro said",
        ("note", "error"),
        """A message of the xacro program while it expanded the file. As an error: it could not expand it.""",
        """Arguments are given with `--xacro NAME=VALUE`.""",
    ),
)
