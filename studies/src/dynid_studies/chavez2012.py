"""Study of Chavez-Olivares et al. 2012: five identification schemes on a direct-drive arm of three joints."""

from __future__ import annotations

import numpy as np

from dynid.base import Float
from dynid.report.figures import (
    BLUE,
    CYCLE,
    GREEN,
    GREY,
    PURPLE,
    VERMILION,
    Axis,
    Panel,
    column_of,
    line,
    row_of,
)
from dynid.rows import EnergyRows, FilteredPowerRows, MomentumRows, PowerRows, Rows, TorqueRows
from dynid.signals import Samples
from dynid.simulation.open_loop import OpenLoop, open_loop
from dynid_studies.rotradi import (
    COUNTS,
    JOINTS,
    NAMES,
    POLE,
    SCHEMES,
    SECONDS,
    STEP,
    TABLE_1,
    TERMS,
    THETA,
    Torque,
    arm,
    exciting,
    full,
    measured,
    phases,
    truth,
    unseen,
)
from dynid_studies.rotradi_checks import check_equations, check_tables
from dynid_studies.rotradi_figures import PARTS, eigenvalues, evolution, positions, scheme_figure, torques
from dynid_studies.rotradi_schemes import Fit, fit_printed, fit_rows, recursive_against_batch
from dynid_studies.study import Dose, Paper, StudyPage, at_most, reported

PAPER = Paper(
    name="chavez2012",
    title="Five identification schemes on a direct-drive robot",
    source="Chávez-Olivares, Reyes-Cortés, González-Galván, Mendoza-Gutiérrez and Bonilla-Gutiérrez 2012, "
    "Int. J. Adv. Robot. Syst. 9",
    summary="Dynamic, filtered dynamic, energy, power and filtered power regressors, fitted by recursive least squares "
    "to an arm of three joints under commanded torque.",
)
CUTOFF = POLE / (2 * np.pi)
# Joints slower than this may be held by dry friction, rad/s.
STICK = 0.01
FILTERED = MomentumRows(CUTOFF, 1, "zero", stick=STICK)
BETTER: dict[str, Rows] = {
    "dynamic": TorqueRows(),
    "filtered dynamic": FILTERED,
    "energy": EnergyRows("zero"),
    "power": PowerRows(),
    "filtered power": FilteredPowerRows(CUTOFF, 1, "zero"),
}
PLACES = (
    ("Figures 1 and 8", "The arm", "a photograph, and the kinematic scheme: drawn from the model"),
    ("Table 1", "The arm", "with the torque that the trajectories ask for"),
    ("(22) to (26), (33) to (37), (43) to (50)", "The equations, entry by entry", "checked, misprints"),
    ("Tables 3 and 4 as printed", "Tables 3 and 4", "every entry of Table 4; the numbers of section 5"),
    ("(30) to (32)", "The experiment", ""),
    ("Tables 2 and 3 in kind", "Five schemes", "on the simulated arm, as printed and corrected"),
    ("Figures 2 and 3", "Figures 2 and 3", ""),
    ("Figures 4 and 5", "Figures 4 and 5", "torque (30) to (32)"),
    ("Figures 6 and 7, (40) to (42)", "Figures 6 and 7", "a torque that was not fitted"),
)
# `python benchmarks/schemes.py --draws 16`: median and worst error of the torque of another motion, %, with the drives'
# velocity and from positions alone.
FOREIGN = (
    ("dynamic", 2.9, 4.5, 2.8, 6.8),
    ("filtered dynamic", 2.9, 4.5, 2.8, 6.8),
    ("energy", 11.0, 32.0, 6.2, 14.0),
    ("power", 4.4, 19.0, 5.2, 8.6),
    ("filtered power", 4.5, 19.0, 4.8, 9.4),
    ("chosen from the log", 2.9, 4.5, 2.8, 6.8),
)
TABLE_2 = {"filtered dynamic": (4.48, 0.95, 3.02), "filtered power": (3.76, 2.70, 7.29)}


def study(dose: Dose, page: StudyPage) -> None:
    """Equations, experiment, schemes as printed and as they should be, open-loop runs, noise."""
    _arm(page)
    check_equations(page)
    check_tables(page)
    exact = truth(exciting(phases(seed=0)))
    backward, central = measured(exact, backward=True), measured(exact)
    _experiment(page, exact)
    printed = {scheme: fit_printed(scheme, backward) for scheme in SCHEMES}
    corrected = fit_printed("filtered dynamic", backward, correct=True)
    better = {scheme: fit_rows(rows, central) for scheme, rows in BETTER.items()}
    driven = dose.pick(("filtered dynamic", "filtered power"), SCHEMES)
    runs = {name: _drive(better[name], central) for name in driven}
    printed_runs = {name: _drive(printed[name], central) for name in driven}
    _schemes(page, printed, better, printed_runs, runs)
    _ladder(page, printed["filtered dynamic"], corrected, better["filtered dynamic"], central)
    _evolution(page, printed["filtered dynamic"], corrected, better["filtered dynamic"], central)
    _open_loop(page, runs["filtered power"], central, better["filtered power"], "4", "5", "(30) to (32)")
    other = measured(truth(unseen))
    run = _drive(better["filtered power"], other)
    _open_loop(page, run, other, better["filtered power"], "6", "7", "(40) to (42), not fitted")
    _noise(page, exact)
    if dose.full:
        _seeds(page)


def _arm(page: StudyPage) -> None:
    page.section("The arm, and where each table and figure stands")
    page.table("Tables and figures of the paper", ("in the paper", "section here", ""), PLACES)
    page.table(
        "Table 1: motors (as printed; 1,024,000 counts a turn each)",
        ("joint", "motor", "greatest torque, N m", "greatest of (30) to (32), N m", "of (40) to (42), N m"),
        [
            (name, motor, most, float(a), float(b))
            for name, (motor, most), a, b in zip(
                JOINTS, TABLE_1, *(_greatest(law) for law in (exciting(phases(seed=0)), unseen)), strict=True
            )
        ],
        name="table_1",
    )
    page.figure(
        "figure8",
        "Figures 1 and 8 in kind: the arm's frames from the side; the length of link 3 is printed nowhere",
        scheme_figure(),
    )


def _greatest(law: Torque) -> Float:
    return np.asarray(np.abs(law(STEP * np.arange(round(SECONDS / STEP), dtype=np.float64))).max(axis=0))


def _experiment(page: StudyPage, exact: Samples) -> None:
    page.section("The experiment")
    page.text(
        f"""The real arm is not available, so an arm with the paper's best parameters (Table 3, filtered dynamic) is
        simulated: torque (30) to (32), held for {1e3 * STEP:g} ms, from rest, 10 s. Between samples the motion is
        integrated by a Runge-Kutta method of fourth order; a joint stops exactly when its velocity reaches zero, and
        sticks while dry friction can hold it. Encoders have {COUNTS:,} counts a turn; velocities and accelerations are
        differences: backward as in the paper, or central."""
    )
    moving = [line(exact.t, exact.q[:, j], name, CYCLE[j]) for j, name in enumerate(JOINTS)]
    torque = [line(exact.t, exact.tau[:, j], name, CYCLE[j]) for j, name in enumerate(JOINTS)]
    panels = [
        Panel(tuple(torque), Axis(""), Axis("torque, N m")),
        Panel(tuple(moving), Axis("time, s"), Axis("position, rad")),
    ]
    page.figure("experiment", "Torque (30) to (32) and the motion that it makes", column_of(panels, 380))
    stuck = 100 * (exact.dq == 0).mean(axis=0)
    slow = 100 * (np.abs(exact.dq) < 0.01).mean(axis=0)
    page.table(
        "How often joints stand still while others move",
        ("joint", "stuck, %", "slower than 0.01 rad/s, %"),
        [(name, float(a), float(b)) for name, a, b in zip(JOINTS, stuck, slow, strict=True)],
    )


def _schemes(
    page: StudyPage,
    printed: dict[str, Fit],
    better: dict[str, Fit],
    printed_runs: dict[str, OpenLoop],
    runs: dict[str, OpenLoop],
) -> None:
    page.section("Five schemes: Tables 2 and 3")
    page.text(
        """Each scheme is fitted twice by recursive least squares from P = 10⁶ I. As printed: closed forms, backward
        differences, zero-order-hold filters, (34) with its error. With dynid's rows: central differences, Tustin's
        rule, the exact work of a torque that is constant over a step, and, for the filtered dynamic scheme, a pause
        while a joint sticks.

        The paper's ranking of the schemes does not show their merits. If each is implemented correctly, those without
        acceleration have errors below 0.1 % on this motion. Those with acceleration are worse, because second
        differences of encoder counts are noisy and the model of dry friction is wrong at rest.

        This is an inverse crime: plant and model have the same structure, down to the friction law and the sampling.
        So 0.1 % shows that the rows are implemented correctly and nothing about a real robot. The next table tests
        that."""
    )
    page.table(
        "The schemes on robots with effects outside the model: error of the torque of another motion, %",
        ("scheme", "with velocity: median", "worst", "positions alone: median", "worst"),
        FOREIGN,
        digits=2,
        name="foreign",
        note="Printed by `python benchmarks/schemes.py --draws 16`, not by this study: sixteen simulated arms with "
        "some of springs, hysteresis, cables, ripple, warming, stale and quantised signals, half of them logged with "
        "the drives' velocity. Schemes with one equation for all joints (energy, power) spread unmodelled work over "
        "all parameters.",
    )
    for key, form, fits in (("printed", "as printed", printed), ("rows", "with dynid's rows", better)):
        page.table(
            f"Table 3 in kind, {form}: parameters by scheme",
            ("parameter", "truth", *SCHEMES),
            [
                (name, float(THETA[i]), *(float(fits[scheme].theta[i]) for scheme in SCHEMES))
                for i, name in enumerate(NAMES)
            ],
            digits=4,
            name=f"table_3_fitted_{key}",
        )
    page.results(
        "Median error of the 21 parameters, %",
        *(
            reported(f"error_printed_{_key(s)}", f"{s}, as printed", printed[s].error, unit="%")
            for s in SCHEMES
        ),
        reported("error_dynamic", "dynamic", better["dynamic"].error, unit="%"),
        at_most(
            "error_filtered_dynamic", "filtered dynamic", better["filtered dynamic"].error, 0.15, unit="%"
        ),
        at_most("error_energy", "energy", better["energy"].error, 0.15, unit="%"),
        reported("error_power", "power", better["power"].error, unit="%"),
        at_most("error_filtered_power", "filtered power", better["filtered power"].error, 0.15, unit="%"),
    )
    page.table(
        "Table 2 in kind: open-loop error ‖q_error‖₂ by joint, rad; a diverging run has none",
        ("scheme", "form", *JOINTS, "printed, on the real arm"),
        [
            (name, form, *_norms(run), _printed_norms(name) if form == "as printed" else "")
            for name in runs
            for form, run in (("as printed", printed_runs[name]), ("dynid", runs[name]))
        ],
        note="The paper's figures come from a real robot, with everything that its model leaves out; its other three "
        "schemes have none. In full all five are driven.",
        name="table_2",
    )
    worst = float(runs["filtered power"].norm.max())
    page.results(
        "Open loop",
        at_most("open_loop_filtered_power", "filtered power: greatest ‖q_error‖₂", worst, 0.05, unit="rad"),
    )


def _ladder(page: StudyPage, printed: Fit, corrected: Fit, better: Fit, central: Samples) -> None:
    page.section("The filtered dynamic scheme, step by step")
    page.text(
        """The effect of each correction. With exact stiction the largest remaining error after the correction of (34)
        is friction at rest: it has any value up to its limit, the regressor contains sign(0), and the filter spreads
        the difference to samples of sliding. Pausing a joint's equation while it sticks, and restarting from its
        momentum afterwards, removes this error."""
    )
    plain = fit_rows(MomentumRows(CUTOFF, 1, "zero"), central)
    rows = (
        ("as printed", printed),
        ("(34) corrected", corrected),
        ("and Tustin's rule, central differences", plain),
        ("and paused while a joint sticks", better),
    )
    page.table(
        "Median error of the parameters",
        ("form", "median error, %"),
        [(name, fit.error) for name, fit in rows],
    )
    page.results(
        "Corrections",
        at_most(
            "correction",
            "error with (34) corrected over error as printed",
            corrected.error / printed.error,
            0.7,
        ),
        at_most("stick", "error with the pause over error without", better.error / plain.error, 0.1),
    )


def _evolution(page: StudyPage, printed: Fit, corrected: Fit, fit: Fit, central: Samples) -> None:
    page.section("Figures 2 and 3: the estimate over time")
    page.text(
        """Dotted lines are the true values. The paper's figures show estimates of the real arm. The entries of P have
        different units, so its eigenvalues are numbers only. Between jumps P is constant: these are times without new
        information."""
    )
    for part, (_, quantity) in PARTS.items():
        page.figure(
            f"figure2{part}", f"Figure 2{part}: {quantity} over time, filtered dynamic", evolution(fit, part)
        )
    page.figure("figure3", "Figure 3: eigenvalues of P over time", eigenvalues(fit))
    values = fit.trajectory.eigenvalues
    forms = {"as printed": printed, "(34) corrected": corrected, "paused while a joint sticks": fit}
    page.table(
        "Greatest eigenvalue of P",
        ("time, s", *forms),
        [
            (
                second,
                *(
                    float(np.interp(second, f.trajectory.t, f.trajectory.eigenvalues[:, 0]))
                    for f in forms.values()
                ),
            )
            for second in (1.0, 2.5, 5.0, 10.0)
        ],
        name="eigenvalues",
    )
    rises = float(np.max(values[1:] / values[:-1]))
    page.results(
        "Covariance",
        at_most(
            "eigenvalues_fall", "greatest ratio of an eigenvalue of P to its predecessor", rises, 1.0 + 1e-9
        ),
        at_most(
            "recursive_batch",
            "recursive estimate less (P₀⁻¹ + Σ ΨΨ')⁻¹ Σ Ψy, relative",
            recursive_against_batch(FILTERED, central),
            1e-6,
        ),
        at_most("eigenvalue_end", "greatest eigenvalue of P after 10 s", float(values[-1, 0]), 0.1),
    )


def _open_loop(
    page: StudyPage, run: OpenLoop, samples: Samples, fit: Fit, motion: str, torque: str, which: str
) -> None:
    page.section(f"Figures {motion} and {torque}: torque {which}")
    page.text(
        """The model of the filtered power scheme, driven by the applied torque, compared with the motion of the arm;
        and the torque computed from encoder positions, compared with the applied torque. The computed torque is noisy,
        as in the paper, because it contains second differences of encoder counts."""
    )
    page.figure(
        f"figure{motion}", f"Figure {motion}: measured and simulated positions", positions(run, samples)
    )
    model = TERMS.torque(arm(), samples, full(fit.theta))
    page.figure(f"figure{torque}", f"Figure {torque}: applied and computed torque", torques(samples, model))
    page.results(
        "Error of the open-loop run",
        *(
            at_most(f"open_loop_{motion}_{name}", f"‖q_error‖₂, {name}", float(x), 0.05, unit="rad")
            for name, x in zip(JOINTS, run.norm, strict=True)
        ),
    )


def _noise(page: StudyPage, exact: Samples) -> None:
    page.section("Noise")
    page.text(
        """Coarser encoders, with everything else equal. Schemes that differentiate twice become worse first. The
        filtered dynamic scheme changes least: noise enters it linearly, and the energy schemes through squared
        velocities."""
    )
    counts = [1_024_000.0, 102_400.0, 40_960.0, 10_240.0]
    errors: dict[str, list[float]] = {name: [] for name in BETTER}
    noisy = BETTER | {"filtered dynamic": MomentumRows(CUTOFF, 2, "zero", stick=0.03)}
    for count in counts:
        samples = measured(exact, counts=count)
        for name, rows in noisy.items():
            errors[name].append(fit_rows(rows, samples).error)
    page.table(
        "Median error of the parameters by encoder, %",
        ("counts a turn", *BETTER),
        [(f"{count:,.0f}", *(errors[name][i] for name in BETTER)) for i, count in enumerate(counts)],
        note="The filtered dynamic scheme with a filter of relative degree 2, and a pause below 0.03 rad/s.",
        name="noise",
    )
    colours = dict(zip(BETTER, (GREY, VERMILION, BLUE, PURPLE, GREEN), strict=True))
    resolution = 2 * np.pi / np.array(counts)
    traces = tuple(
        line(resolution, np.array(errors[name]), name, colours[name], width=1.8) for name in BETTER
    )
    panel = Panel(traces, Axis("encoder step, rad", log=True), Axis("median error, %", log=True))
    page.figure("noise", "Error of the parameters by encoder", row_of([panel], 300))
    page.results(
        "At 10,240 counts a turn",
        at_most("noise_filtered_dynamic", "filtered dynamic", errors["filtered dynamic"][-1], 3.0, unit="%"),
        at_most(
            "noise_ratio",
            "filtered dynamic over dynamic",
            errors["filtered dynamic"][-1] / errors["dynamic"][-1],
            0.1,
        ),
    )


def _seeds(page: StudyPage) -> None:
    page.section("Other phases")
    page.text("The trajectories have random phases; the figures above are those of one draw. Here are ten.")
    rows = []
    for seed in range(10):
        exact = truth(exciting(phases(seed)))
        backward, central = measured(exact, backward=True), measured(exact)
        right = fit_printed("filtered dynamic", backward, correct=True).error
        fits = [fit_rows(BETTER[s], central).error for s in SCHEMES]
        rows.append((seed, fit_printed("filtered dynamic", backward).error, right, *fits))
    page.table(
        "Median error of the parameters by draw, %",
        ("draw", "filtered dynamic, printed", "(34) corrected", *SCHEMES),
        rows,
    )
    worst = np.array(rows)[:, 3:].max(axis=0)
    page.results(
        "Worst of ten draws",
        *(
            at_most(f"worst_{_key(s)}", s, float(worst[SCHEMES.index(s)]), bound, unit="%")
            for s, bound in (("filtered dynamic", 0.15), ("energy", 0.15), ("filtered power", 0.15))
        ),
    )


def _drive(fit: Fit, samples: Samples) -> OpenLoop:
    return open_loop(arm(), TERMS, full(fit.theta), samples, "zero")


def _norms(run: OpenLoop) -> tuple[float | None, ...]:
    return tuple(float(x) if np.isfinite(x) else None for x in run.norm)


def _printed_norms(scheme: str) -> str:
    return ", ".join(f"{x:g}" for x in TABLE_2[scheme]) if scheme in TABLE_2 else "--"


def _key(scheme: str) -> str:
    return scheme.replace(" ", "_")
