"""What makes an effort many times larger or smaller than the torque of the robot's bodies, and what to declare then."""

from __future__ import annotations

# Masses of a description are not off by this factor: gears, torque constants and units are.
GEARED = 5.0


def size_advice(factor: float, slides: bool = False) -> str:
    """What to declare where torque is so many times that of the bodies; "" where that may be the bodies' masses.

    slides: whether it is a force, as all joints slide.
    """
    if 1.0 / GEARED <= factor <= GEARED or factor <= 0:
        return ""
    load, unit = ("force", "N") if slides else ("torque", "N m")
    each = f"{float(f'{1.0 / factor:.2g}'):g}"
    declared = (
        f"for a current, counts or another unit declare effort.unit under [log] and drive_gain under [robot] (about "
        f"{each} {unit} at the joint for each unit of this one)"
    )
    if factor > 1.0:
        return declared
    return (
        f'for {load} of the motors, before gears of about {each} : 1, declare effort.side = "motor" '
        f"under [log] and gear_ratio under [robot]; {declared}"
    )
