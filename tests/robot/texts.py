"""Small robot descriptions in every format, and ways to change them."""

from __future__ import annotations

ARM = """\
<robot name="arm">
  <link name="base"/>
  <joint name="j1" type="revolute">
    <parent link="base"/><child link="l1"/>
    <axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" velocity="2" effort="3"/>
  </joint>
  <link name="l1">
    <inertial>
      <origin xyz="0 0 0.1"/>
      <mass value="1.5"/>
      <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
</robot>
"""
MJCF = """\
<mujoco model="arm">
  <option gravity="0 0 -9.81" timestep="0.002"/>
  <worldbody>
    <body name="l1" pos="0 0 1">
      <joint name="j1" axis="0 0 1" range="-90 90"/>
      <inertial pos="0 0 0.1" mass="1.5" diaginertia="0.1 0.1 0.1"/>
    </body>
  </worldbody>
</mujoco>
"""
TOML = """\
name = "arm"
convention = "modified_dh"
gravity = [0.0, 0.0, -9.81]
dh = [
  [0.0, 0.0, 0.3, 0.0],
  [0.1, 1.5, 0.0, 0.0]
]
[[joint]]
name = "j1"
lower = -1.0
upper = 1.0
[[joint]]
name = "j2"
[joint.inertial]
mass = 1.5
com = [0.0, 0.0, 0.1]
inertia = { xx = 0.1, yy = 0.1, zz = 0.1 }
"""
PLACED = """\
convention = "placements"
[[joint]]
name = "j1"
xyz = [0.0, 0.0, 0.3]
axis = [0.0, 0.0, 1.0]
"""


def swap(text: str, old: str, new: str) -> str:
    """The text with one passage replaced, which must be there."""
    if old not in text:
        raise AssertionError(f"{old!r} is not in the text")
    return text.replace(old, new, 1)


def chain(links: int, kind: str) -> str:
    """A URDF chain whose first joint moves, the others as given."""
    parts = [f'<link name="l{i}"/>' for i in range(links)]
    parts += [
        f'<joint name="j{i}" type="{"continuous" if i == 0 else kind}"><parent link="l{i}"/>'
        f'<child link="l{i + 1}"/></joint>'
        for i in range(links - 1)
    ]
    return '<robot name="r">' + "\n".join(parts) + "</robot>"
