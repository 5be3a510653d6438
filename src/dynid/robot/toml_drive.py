"""Drives of TOML descriptions: gear ratios, couplings, linkages and motors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import DynidError
from dynid.robot.drive import Drive, TorqueSide, singular
from dynid.robot.linkage import FourBar
from dynid.robot.model import JointType, Limits
from dynid.robot.servo import Servo
from dynid.robot.toml_parts import Findings, angle
from dynid.robot.toml_schema import Description, DriveEntry, Joint, WholeDrive

CLOSES_AT = 181


def drive(
    description: Description,
    names: Sequence[str],
    kinds: Sequence[JointType],
    limits: Limits,
    known: Drive,
    findings: Findings,
) -> Drive:
    """The known drive with that of the description put over it; limits: of the same joints."""
    entries = [DriveEntry() for _ in names]
    for i, joint in enumerate(description.joint):
        if joint.name in names:
            entries[list(names).index(joint.name)] = joint.drive or DriveEntry()
            _check_ratio(joint, i, kinds[list(names).index(joint.name)], description, findings)
        elif joint.drive is not None:
            found = f"a drive of joint '{joint.name}', which follows others"
            findings.fail("driven-follower", found, "drives of independent joints", "joint", i, "drive")
    linkages = _linkages(description, names, limits, known, findings)
    ratios = [entry.gear_ratio for entry in entries]
    # A ratio in the file replaces the known one; what was known of coupled motors stays without it.
    N = np.array(known.transmission)
    for j, ratio in enumerate(ratios):
        if ratio is not None:
            N[j] = 0.0
            N[j, j] = ratio
    N = _coupled(N, description, names, findings)
    if description.drive.transmission is not None:
        N = _transmission(description.drive.transmission, len(names), findings)
    findings.stop()
    # What was known of the rotors was known at the joints.
    reflected = (
        known.reflected_rotor_inertia / np.diag(N) ** 2 if np.diag(N).all() else np.full(len(N), np.nan)
    )
    return Drive(
        transmission=N,
        rotor_inertia=_over([entry.rotor_inertia for entry in entries], reflected),
        torque_constant=_over([entry.torque_constant for entry in entries], known.torque_constant),
        drive_gain=_over([entry.drive_gain for entry in entries], known.drive_gain),
        torque_side=TorqueSide(description.drive.torque_side),
        linkages=linkages,
        stiffness=_over([entry.stiffness for entry in entries], known.stiffness),
        damping=_over([entry.damping for entry in entries], known.damping),
        servo=_servo(entries, description.drive, known.servo),
    )


def _servo(entries: Sequence[DriveEntry], whole: WholeDrive, known: Servo | None) -> Servo | None:
    written = any(value is not None for one in entries for value in (one.kp, one.kd, one.dead_band))
    if not written and whole.delay is None and whole.loop is None:
        return known
    before = known or Servo.unknown(len(entries))
    return Servo(
        kp=_over([one.kp for one in entries], before.kp),
        kd=_over([one.kd for one in entries], before.kd),
        effort_limit=before.effort_limit,
        dead_band=_over([one.dead_band for one in entries], before.dead_band),
        delay=before.delay if whole.delay is None else whole.delay,
        hold=before.hold,
        back_emf=before.back_emf,
        loop=before.loop if whole.loop is None else whole.loop,
    )


def _check_ratio(joint: Joint, i: int, kind: JointType, description: Description, findings: Findings) -> None:
    ratio = None if joint.drive is None else joint.drive.gear_ratio
    key = ("joint", i, "drive", "gear_ratio")
    if ratio is None:
        return
    if ratio == 0:
        findings.fail("gear-ratio", f"joint '{joint.name}': gear_ratio = 0", "a number other than 0", *key)
    elif abs(ratio) < 0.2 and kind is not JointType.PRISMATIC:
        findings.fail(
            "gear-ratio-side",
            f"joint '{joint.name}': gear_ratio = {ratio:g}, by which the joint turns {1 / abs(ratio):.4g} times as "
            "fast as its motor",
            "motor turns per joint turn",
            *key,
            do=f"write {1 / ratio:.6g} if joint turns per motor turn were meant",
        )
    if description.drive.transmission is not None:
        findings.fail("two-sources", "a gear_ratio and a transmission", "one of them", *key)


def _coupled(N: Float, description: Description, names: Sequence[str], findings: Findings) -> Float:
    own = np.diag(N).copy()
    for k, one in enumerate(description.drive.coupling):
        key = ("drive", "coupling", k)
        for role in ("motor", "joint"):
            if getattr(one, role) not in names:
                found = f"coupling with {role} '{getattr(one, role)}'"
                findings.fail("unknown-joint", found, "one of " + ", ".join(names), *key)
                return N
        if one.motor == one.joint:
            findings.fail("self-coupling", f"'{one.motor}' coupled with itself", "two different joints", *key)
        if description.drive.transmission is not None:
            findings.fail("two-sources", "a coupling and a transmission", "one of them", *key)
        i, j = list(names).index(one.motor), list(names).index(one.joint)
        N[i, j] += one.factor * own[i]
    fault = singular(N)
    if fault and description.drive.coupling:
        expected = "couplings after which every motor is independent of the others"
        findings.fail("singular-transmission", fault, expected, "drive", "coupling", 0)
    return N


def _transmission(rows: list[list[float]], n: int, findings: Findings) -> Float:
    key = ("drive", "transmission")
    if len(rows) != n or any(len(row) != n for row in rows):
        findings.fail("transmission", f"a transmission of {len(rows)} rows", f"{n} rows of {n} numbers", *key)
        return np.eye(n)
    N = np.array(rows)
    fault = singular(N)
    if fault:
        findings.fail("singular-transmission", fault, "an invertible matrix", *key)
        return np.eye(n)
    return N


def _linkages(
    description: Description, names: Sequence[str], limits: Limits, known: Drive, findings: Findings
) -> tuple[FourBar | None, ...]:
    found = list(known.linkages or [None] * len(names))
    for i, joint in enumerate(description.joint):
        given = None if joint.drive is None else joint.drive.linkage
        if given is None or joint.name not in names:
            continue
        j = list(names).index(joint.name)
        key = ("joint", i, "drive", "linkage")
        if not (np.isfinite(limits.lower[j]) and np.isfinite(limits.upper[j])):
            expected = "lower and upper: bars close over a part of the turn only"
            findings.fail("linkage-limits", f"joint '{joint.name}': a linkage without limits", expected, *key)
            continue
        try:
            zero = given.zero * angle(description)
            bars = FourBar(given.ground, given.crank, given.coupler, given.rocker, zero, given.crossed)
            bars.angle(np.linspace(limits.lower[j], limits.upper[j], CLOSES_AT))
            found[j] = bars
        except DynidError as error:
            who = f"joint '{joint.name}': {error.found}"
            findings.fail(error.identifier, who, error.expected, *key, do=error.do)
    return tuple(found)


def _over(given: Sequence[float | None], known: Float) -> Float:
    return np.array([old if new is None else new for new, old in zip(given, known, strict=True)])
