"""Nini et al. 2024, equation (33): rotors that spin on links that move, behind the coupled transmission."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dynid.base import Float
from dynid.estimate import WLS
from dynid.factor import structural_base
from dynid.robot import Mounting, RobotModel
from dynid.rows import MotorRows
from dynid.signals import Samples
from dynid.simulation import Coupling, Plant, State
from dynid.terms import Coulomb, OnMotor, RigidBody, SpinningRotor, Terms, Viscous
from dynid_studies.nini_arm import MODEL, SPRINGS, motion, regression, truth, with_noise
from dynid_studies.nini_static import JOINTS, NOISE
from dynid_studies.study import Dose, StudyPage, at_least, at_most, within

# Motors 2 and 3 sit on the first link, those of the wrist on the upper arm and behind one another.
CARRIERS = ("base", "j1_link", "j1_link", "j3_link", "j3_link", "j5_link")
ROTORS = SpinningRotor(carriers=CARRIERS)
FRICTION = Terms((OnMotor(Viscous()), OnMotor(Coulomb())))
GYROSCOPIC = RigidBody() + ROTORS + FRICTION + SPRINGS
MOTIONS = 4


@dataclass(frozen=True, eq=False)
class Carried:
    """The arm as a simulation in which every rotor is a body on its carrier.    samples: of each motion."""

    robot: RobotModel
    samples: int

    def motions(
        self, noise: float = 0.0, seed: int = 0, count: int = MOTIONS, first: int = 0
    ) -> Iterator[Samples]:
        """Motions with the torque of the simulation; noise: share of the motors' torque range."""
        robot = self.robot
        plant = Plant(robot, coupling=Coupling.FULL, mounting=Mounting.of(robot, CARRIERS))
        outer = FRICTION + SPRINGS
        theta = truth(robot, outer)
        for k in range(first, first + count):
            clean = motion(robot, self.samples, k)[1]
            rigid = plant.drive_torque(State(clean.q, clean.dq, clean.q, clean.dq), clean.ddq)
            tau = rigid + outer.torque(robot, clean, theta)
            if noise:
                tau = with_noise(robot, clean.q, tau, noise, 1000 * seed + k)
            yield replace(clean, tau=tau)

    def errors(self, terms: Terms, theta: Float) -> Float:
        """Root mean square error of a model on a motion that nothing was fitted to, by joint, N m."""
        (unseen,) = self.motions(count=1, first=60)
        error = terms.torque(self.robot, unseen, theta) - unseen.tau
        return np.asarray(np.sqrt((error**2).mean(axis=0)))


def add_rotors(page: StudyPage, robot: RobotModel, dose: Dose) -> None:
    """Identified without noise and with it, beside the model whose rotors only spin."""
    draws, samples = dose.pick(4, 20), dose.pick(4_000, 20_000)
    made = Carried(robot, samples)
    page.section("Rotors that the links carry (33)")
    page.text(
        f"""Equation (33) uses the acceleration of a rotor about its own axis, including that of the link that carries
        the motor; this link also receives the rotor's gyroscopic torque. `spinning_rotor` identifies such rotors
        behind the coupled transmission. The simulation does not use that term: its rotors are links of the tree, on
        the base, the first link (motors 2 and 3), the upper arm (4 and 5) and the wrist. {MOTIONS} motions of
        {samples:,} samples, {draws} draws of {100 * NOISE:.3g} % noise."""
    )
    base = structural_base(robot, GYROSCOPIC, MotorRows())
    true = base.reduce(truth(robot, GYROSCOPIC))
    exact = WLS().fit(regression(robot, GYROSCOPIC, MotorRows(), made.motions()))
    plain = WLS().fit(regression(robot, MODEL, MotorRows(), made.motions()))
    rows = {"rotors that links carry": (GYROSCOPIC, exact), "rotors that only spin": (MODEL, plain)}
    missed = {name: made.errors(terms, fit.full_vector) for name, (terms, fit) in rows.items()}
    page.table(
        "Without noise, a held-out motion: what the model misses, root mean square, N m",
        ("", *JOINTS),
        [(name, *map(float, values)) for name, values in missed.items()],
    )
    inside = []
    for seed in range(1, draws + 1):
        noisy = WLS().fit(regression(robot, GYROSCOPIC, MotorRows(), made.motions(NOISE, seed)))
        inside.append(float((np.abs(noisy.value - true) <= noisy.half_width()).mean()))
    carried, spinning = missed.values()
    page.results(
        "Identified",
        within("gyroscopic_rank", "identifiable parameters", base.rank, 53, 0),
        at_most(
            "gyroscopic_exact",
            "without noise: greatest relative error of a parameter",
            float(np.abs(exact.value / true - 1.0).max()),
            1e-6,
        ),
        within("gyroscopic_covered", "with noise: share of parameters inside their 95 % intervals",
               float(np.mean(inside)), 0.95, 0.04),
        at_least("gyroscopic_cost", "rotors that only spin: what they miss, joints 2 to 5, least, N m",
                 float(spinning[1:5].min()), 0.02, unit="N m"),
        at_most("gyroscopic_left", "rotors that links carry: the most that they miss, N m",
                float(carried.max()), 1e-6, unit="N m"),
    )  # fmt: skip
