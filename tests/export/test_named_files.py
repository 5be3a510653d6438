"""Exported files load where they lie: what they name is found from there, and what does not exist is left out."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from dynid.exporters.xml_edit import place_mjcf, place_urdf, scan

# Every way in which a shape comes from a file: by name, by the file's name, by a class; a height field, a texture.
SCENE = """<mujoco model="arm">
  <compiler meshdir="parts" texturedir="skins"/>
  <default>
    <geom contype="0"/>
    <default class="shown"><geom type="mesh" mesh="b"/><default class="dark"><geom rgba="0 0 0 1"/></default></default>
  </default>
  <asset>
    <mesh name="a" file="one.stl"/> <mesh file="b.stl"/>
    <hfield name="hills" file="hills.png" size="1 1 1 .1"/>
    <texture name="wood" type="2d" file="wood.png"/>
    <material name="oak" texture="wood"/>
  </asset>
  <worldbody>
    <geom name="ground" type="hfield" hfield="hills"/>
    <body name="link" childclass="dark">
      <joint name="hinge" axis="0 1 0"/>
      <inertial pos="0.1 0 0.2" mass="2" diaginertia="0.02 0.03 0.025"/>
      <geom name="shell" type="mesh" mesh="a"/>
      <geom/>
      <geom name="core" type="box" size=".1 .1 .1" class="main" material="oak"/>
    </body>
  </worldbody>
  <contact><pair geom1="shell" geom2="core"/></contact>
  <sensor><distance geom1="shell" geom2="core" cutoff="1"/><jointpos joint="hinge"/></sensor>
</mujoco>
"""
TRIANGLES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32)


def write_stl(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    facets = b"".join(struct.pack("<12fH", 0, 0, 0, *CORNERS[one].ravel(), 0) for one in TRIANGLES)
    path.write_bytes(bytes(80) + struct.pack("<I", len(TRIANGLES)) + facets)


def write_png(path: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0\0\xff\0\xff\0")
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


WRITERS: dict[str, Callable[[Path], None]] = {
    "parts/one.stl": write_stl, "parts/b.stl": write_stl, "parts/hills.png": write_png, "skins/wood.png": write_png,
}  # fmt: skip


@pytest.mark.parametrize("absent", [(), *((name,) for name in WRITERS), tuple(WRITERS)])
def test_mujoco_loads_what_is_placed(tmp_path: Path, absent: tuple[str, ...]) -> None:
    for name, write in WRITERS.items():
        if name not in absent:
            write(tmp_path / "from" / name)
    target = tmp_path / "to" / "deep" / "arm.xml"
    target.parent.mkdir(parents=True)
    placed = place_mjcf(SCENE.encode(), tmp_path / "from" / "robot.xml", target)
    target.write_bytes(placed.data)
    model = mujoco.MjModel.from_xml_path(str(target))
    assert placed.absent == tuple(name.partition("/")[2] for name in absent)
    shown = {"parts/one.stl": 1, "parts/b.stl": 1, "parts/hills.png": 1, "skins/wood.png": 0}
    assert placed.dropped == sum(shown[name] for name in absent)
    assert model.ngeom == 4 - placed.dropped
    assert model.nsensor == 2 - ("parts/one.stl" in absent)
    np.testing.assert_array_equal(model.body("link").mass, 2.0)
    np.testing.assert_allclose(model.body("link").ipos, [0.1, 0, 0.2])
    assert model.geom("core").type[0] == mujoco.mjtGeom.mjGEOM_BOX


def test_a_file_that_stays_in_its_folder_and_lacks_nothing_stays_as_it_is(tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        write(tmp_path / name)
    placed = place_mjcf(SCENE.encode(), tmp_path / "robot.xml", tmp_path / "new.xml")
    assert placed.data == SCENE.encode()
    without = place_mjcf(SCENE.encode(), tmp_path / "robot.xml", tmp_path / "new.xml", shapes=False)
    assert without.dropped == 3
    assert mujoco.MjModel.from_xml_string(without.data.decode()).ngeom == 1


@pytest.mark.parametrize("compiler", ["", "<compiler assetdir='parts'/>", "<compiler strippath='true'/>"])
def test_folders_of_assets_in_all_their_forms(tmp_path: Path, compiler: str) -> None:
    name = {"": "parts/one.stl", "<compiler assetdir='parts'/>": "one.stl"}.get(compiler, "C:\\cad\\one.stl")
    write_stl(tmp_path / "from" / ("one.stl" if "strip" in compiler else "parts/one.stl"))
    text = (
        f"<mujoco>{compiler}<asset><mesh name='a' file='{name}'/></asset><worldbody>"
        "<geom type='mesh' mesh='a'/></worldbody></mujoco>"
    )
    target = tmp_path / "to" / "arm.xml"
    target.parent.mkdir()
    target.write_bytes(place_mjcf(text.encode(), tmp_path / "from" / "robot.xml", target).data)
    assert mujoco.MjModel.from_xml_path(str(target)).ngeom == 1


def test_urdf_names_its_meshes_from_the_new_folder(tmp_path: Path) -> None:
    write_stl(tmp_path / "from" / "parts" / "one.stl")
    (tmp_path / "to").mkdir()
    shapes = "".join(
        f'<{kind}><geometry><mesh filename="{name}"/></geometry></{kind}>\n'
        for kind in ("visual", "collision")
        for name in ("parts/one.stl", "parts/gone.stl", "/home/else/gone.stl")
    )
    text = f"""<robot name="r">
<material name="oak"><texture filename="wood.png"/></material>
<link name="a">{shapes}<visual><geometry><mesh filename="package://cad/x.stl"/></geometry></visual></link>
</robot>"""
    target = tmp_path / "to" / "arm.urdf"
    placed = place_urdf(text.encode(), tmp_path / "from" / "robot.urdf", target)
    target.write_bytes(placed.data)
    assert placed.absent == ("wood.png", "parts/gone.stl", "/home/else/gone.stl")
    names = [tag.attributes["filename"] for tag in scan(placed.data, "").walk() if tag.name == "mesh"]
    kept = ["../from/parts/one.stl", "../from/parts/gone.stl", "/home/else/gone.stl"]
    assert names == [*kept, *kept, "package://cad/x.stl"]
    assert (tmp_path / "to" / names[0]).exists()
