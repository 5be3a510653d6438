"""Figures of Madsen et al. 2020: motion, friction, residuals, and torque of every joint with what models say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynid.base import Float
from dynid.estimate import Residuals
from dynid.report.figures import (
    BLUE,
    CYCLE,
    GREY,
    INK,
    ORANGE,
    STEEL,
    VERMILION,
    Axis,
    Figure,
    Panel,
    column_of,
    dots,
    grid_of,
    level_line,
    line,
    row_of,
)
from dynid.simulation import SimulatedMotion
from dynid_studies.madsen_arm import FC, FL, FV, HEAT, REFERENCE, SIGNS, WIDTH


def motion_figure(m: SimulatedMotion) -> Figure:
    """Angles, velocities and accelerations of the links."""
    signals = ((m.q, "rad"), (m.dq, "rad/s"), (m.ddq, "rad/s²"))
    # Every eightieth sample shows harmonics of half a hertz, but not how gears tremble.
    return column_of(
        [
            Panel(
                tuple(line(m.t[::80], x[::80, j], f"joint {j + 1}", CYCLE[j]) for j in range(6)),
                Axis("time, s", span=(0.0, float(m.t[-1]))),
                Axis(unit),
            )
            for x, unit in signals
        ],
        480,
    )


def friction_figure(viscous: float, coulomb: float) -> Figure:
    """Friction of joint 1: true, as it is known, and with the viscous and Coulomb friction found beside it."""
    known = 1 + 0.07 * SIGNS[0]

    def law(speed: Float, load: Float, warm: Float, share: float) -> Float:
        heat = 1 + HEAT[0] * (warm - REFERENCE)
        dry = FC[0] + FL[0] * np.abs(load)
        return np.asarray(share * (FV[0] * heat * speed + dry * np.tanh(speed / WIDTH)))

    def curves(x: Float, speed: Float, load: Float, warm: Float) -> tuple[dict[str, object], ...]:
        discrepancy = viscous * speed + coulomb * np.tanh(speed / WIDTH)
        return (
            line(x, law(speed, load, warm, 1.0), "true", GREY, 4.0),
            line(x, law(speed, load, warm, known), "known, 7 % wrong", ORANGE, 1.6, "dash"),
            line(x, law(speed, load, warm, known) + discrepancy, "known and found", BLUE, 1.6),
        )

    ones_201 = np.ones(201)
    speed, load, warm = np.linspace(-1.5, 1.5, 201), np.linspace(0, 80, 201), np.linspace(25, 45, 201)
    panels = [
        Panel(
            curves(speed, speed, 20 * ones_201, 30 * ones_201),
            Axis("rad/s"),
            Axis("N m"),
            title="load 20 N m, 30 °C",
        ),
        Panel(
            curves(load, 0.5 * ones_201, load, 30 * ones_201),
            Axis("load, N m"),
            Axis(),
            title="0.5 rad/s, 30 °C",
        ),
        Panel(
            curves(warm, 0.5 * ones_201, 20 * ones_201, warm),
            Axis("°C"),
            Axis(),
            title="0.5 rad/s, load 20 N m",
        ),
    ]
    return row_of(panels, 280)


def residual_figure(rigid: Residuals, rotor: Residuals) -> Figure:
    """Residuals of the fit without and with compensation, joint by joint."""
    panels = [
        Panel(
            (
                line(rigid.t[::3], rigid.error[::3, j], "no compensation of friction", VERMILION, 0.9),
                line(rotor.t[::3], rotor.error[::3, j], "rotor compensation", BLUE, 0.9),
            ),
            Axis("time, s" if j > 3 else "", span=(0.0, float(np.ceil(rotor.t[-1]))), most_ticks=5),
            Axis("" if j % 2 else "N m", most_ticks=5),
            title=f"joint {j + 1}",
        )
        for j in range(6)
    ]
    return grid_of(panels, 2, 620)


def joint_figure(t: Float, measured: Float, model: Float, name: str) -> Figure:
    """Torque (T,) of one joint, measured and by a model, and their difference below."""
    colour = BLUE if name == "calibrated" else VERMILION
    span = (float(np.floor(t[0])), float(np.ceil(t[-1])))
    every = slice(None, None, 2)
    return column_of(
        [
            Panel(
                (
                    line(t[every], measured[every], "measured", STEEL, 3.0),
                    line(t[every], model[every], name, colour, 1.2),
                ),
                Axis("", span=span),
                Axis("torque, N m"),
                weight=1.7,
            ),
            Panel(
                (line(t[every], (measured - model)[every], "difference", INK, 0.9),),
                Axis("time, s", span=span),
                Axis("N m", most_ticks=4),
                (level_line(0.0),),
            ),
        ],
        320,
    )


def nmse_figure(by_joint: Mapping[str, Float]) -> Figure:
    """Mean square error over mean torque of every joint and model, (6,) N m each."""
    colours = (VERMILION, ORANGE, BLUE, INK)
    place = np.arange(1.0, 7.0)
    values = np.concatenate([np.asarray(v) for v in by_joint.values()])
    low, high = 10 ** np.floor(np.log10(values.min())), 10 ** np.ceil(np.log10(values.max()))
    traces = tuple(
        dots(place + shift, np.asarray(v), name, colour, 8.0, 0.95)
        for (name, v), colour, shift in zip(
            by_joint.items(), colours, (-0.15, -0.05, 0.05, 0.15), strict=True
        )
    )
    labels = tuple(f"joint {j}" for j in range(1, 7))
    x = Axis("", span=(0.5, 6.5), labels=labels)
    return row_of([Panel(traces, x, Axis("N m", log=True, span=(float(low), float(high))))], 280)
