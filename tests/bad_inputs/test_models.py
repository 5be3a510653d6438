"""The bad-input catalogue's robot descriptions, cases 1 to 32: each stops, or warns, with place and reason."""
# ruff: noqa: E501  (files as they are written)

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, DynidError, InputError, RefusedError
from dynid.robot import RobotModel, load_robot
from tests.robot.texts import ARM, MJCF, PLACED, TOML, chain, swap

SECOND = '<link name="l2"/><joint name="j2" type="revolute"><parent link="l1"/><child link="l2"/>'
LIMIT = '<limit lower="-1" upper="1" velocity="1" effort="1"/>'


@dataclass(frozen=True)
class Case:
    """One description, the error class that it must raise and what the message must say."""

    name: str
    text: str | bytes
    error: type[DynidError]
    identifier: str
    says: tuple[str, ...] = ()
    file: str = "robot.urdf"
    beside: dict[str, str] = field(default_factory=dict)
    root: str | None = None


def urdf(
    name: str, old: str, new: str, identifier: str, *says: str, error: type[DynidError] = InputError
) -> Case:
    """A case of a broken URDF arm."""
    return Case(name, swap(ARM, old, new), error, identifier, says)


def mjcf(
    name: str, old: str, new: str, identifier: str, *says: str, error: type[DynidError] = InputError
) -> Case:
    """A case of a broken MJCF arm."""
    return Case(name, swap(MJCF, old, new), error, identifier, says, "robot.xml")


def toml(name: str, old: str, new: str, identifier: str, *says: str, text: str = TOML) -> Case:
    """A case of a broken TOML arm."""
    return Case(name, swap(text, old, new), InputError, identifier, says, "robot.toml")


CASES = [
    Case("1 empty", "", InputError, "file-empty", (":1:", "URDF, xacro, MJCF, SDF, USD or TOML")),
    Case("1 blank", " \n\n", InputError, "file-empty", (":1:",)),
    Case("1 not XML", "hello\nworld", InputError, "xml-syntax", ("robot.urdf:1:",)),
    Case("1 other XML", "<html/>", InputError, "robot-format", (":1:", "<html>", "<robot> (URDF)")),
    Case("1 empty MJCF", "<mujoco/>", InputError, "no-joints", ("robot.xml",), "robot.xml"),
    Case("1 empty TOML", "", InputError, "no-convention", ("robot.toml:1:", "standard_dh"), "robot.toml"),
    Case("1 not TOML", "a = 1\nb = = 2\n", InputError, "toml-syntax", ("robot.toml:2:5",), "robot.toml"),
    Case("1 xacro", '<robot xmlns:xacro="x"><xacro:arm/></robot>', InputError, "xacro", ("xacro:arm",), "arm.xacro"),
    Case("1 xacro in a URDF", '<robot xmlns:xacro="x"><xacro:arm/></robot>', RefusedError, "xacro-unasked",
         ("robot.urdf:1", "<xacro:arm>", "--xacro")),
    Case("1 Python", "DH = [[0, 0.08, 0]]", InputError, "robot-format", (":1:", "'DH = [[0,", "[[joint]]"), "dh.py"),
    Case("1 Python below a blank line", "\n \nDH = [[0, 0.08, 0]]", InputError, "robot-format", (":3:", "'DH = [[0,"), "dh.py"),
    Case("1 blank", " \n\n", InputError, "robot-format", ("an empty file",), "dh.py"),
    Case("1 part of an MJCF", "<mujocoinclude/>", InputError, "robot-format", ("the file that includes it",)),
    Case("1 body alone", '<mujoco><body name="b"/></mujoco>', InputError, "mjcf-fragment", (":1:", "<worldbody>")),
    urdf("2 unclosed tag", "  </link>\n", "", "xml-syntax", ":14:", "mismatched tag", "<link> (opened in line 8"),
    Case("3 truncated", ARM[: ARM.index("<inertia ")], InputError, "xml-truncated",
         ("the last complete element is <mass> in line 11", "inside <inertial> (opened in line 9)", "robot.urdf:12:")),
    Case("3 truncated in a tag", ARM[: ARM.index("1.5") + 1], InputError, "xml-truncated",
         (":11:", "the last complete element is <origin> in line 10")),
    Case("3 truncated at once", "<robot na", InputError, "xml-truncated", ("the end of the file",)),
    Case("3 truncated TOML", 'a = "x', InputError, "toml-syntax", (":1",), "robot.toml"),
    Case("4 NUL", ARM.encode().replace(b"l1", b"l\0", 1), InputError, "encoding",
         (f"offset {ARM.index('l1') + 1}", ":4:")),
    Case("4 not UTF-8", ARM.encode().replace(b"l1", b"l\xff", 1), InputError, "encoding",
         (f"offset {ARM.index('l1') + 1}",)),
    Case("4 unknown encoding", '<?xml version="1.0" encoding="klingon"?>\n' + ARM, InputError, "encoding",
         ("offset", "klingon")),
    Case("4 false encoding", '<?xml version="1.0" encoding="utf-16"?>\n' + ARM, InputError, "encoding", ("offset",)),
    Case("4 TOML", b'a = 1\nb = "\xff"\n', InputError, "encoding", ("robot.toml:2:", "byte 11"), "robot.toml"),
    Case("5 DOCTYPE", '<?xml version="1.0"?>\n<!DOCTYPE robot>\n' + ARM, RefusedError, "xml-doctype", (":2:",)),
    Case("5 entities", '<!DOCTYPE r [\n<!ENTITY a "aa">\n<!ENTITY b "&a;&a;">]>\n' + ARM, RefusedError,
         "xml-doctype", (":1:",)),
    Case("5 entity in MJCF", '<!DOCTYPE mujoco SYSTEM "file:///etc/passwd">' + MJCF, RefusedError, "xml-doctype",
         file="robot.xml"),
    Case("6 depth", "<robot>" + "<a>" * 300 + "</a>" * 300 + "</robot>", RefusedError, "xml-depth", ("256", ":1:")),
    Case("6 MJCF depth", "<mujoco><worldbody>" + "<body>" * 300, RefusedError, "xml-depth", file="robot.xml"),
    Case("6 TOML depth", "a = " + "[" * 5000 + "]" * 5000, RefusedError, "toml-depth", file="robot.toml"),
    Case("7 links", chain(10_001, "fixed"), RefusedError, "too-many-links", ("10001 links", "4 GB")),
    Case("7 joints", chain(400, "continuous"), RefusedError, "too-many-joints", ("399 moving joints", "MB")),
    Case("7 elements", "<robot>" + "<a/>" * 200_001 + "</robot>", RefusedError, "xml-size", ("200000",)),
    Case("7 bodies", "<mujoco><worldbody>" + "<body/>" * 257 + "</worldbody></mujoco>", RefusedError,
         "too-many-links", ("257 bodies", "MB"), "robot.xml"),
    urdf("8 nan mass", '"1.5"', '"nan"', "not-finite", ":11:7", "link 'l1'", "mass value = 'nan'"),
    urdf("8 infinite mass", '"1.5"', '"inf"', "not-finite", ":11:", "link 'l1'"),
    urdf("8 overflowing mass", '"1.5"', '"1e999"', "not-finite", ":11:", "link 'l1'"),
    urdf("8 nan inertia", 'iyy="0.1"', 'iyy="NaN"', "not-finite", ":12:", "link 'l1'", "iyy"),
    urdf("8 nan origin", '"0 0 0.1"', '"0 nan 0.1"', "not-finite", ":10:", "link 'l1'", "xyz"),
    urdf("8 nan limit", 'upper="1"', 'upper="nan"', "not-finite", ":6:", "joint 'j1'"),
    mjcf("8 nan mass", 'mass="1.5"', 'mass="nan"', "not-finite", ":6:7", "mass = 'nan'"),
    mjcf("8 infinite mass", 'mass="1.5"', 'mass="inf"', "not-finite", ":6:"),
    mjcf("8 nan position", 'pos="0 0 1"', 'pos="nan 0 1"', "not-finite", ":4:", "body 'l1'"),
    toml("8 nan mass", "mass = 1.5", "mass = nan", "wrong-value", ":15:", "joint.1.inertial.mass = nan", "a number > 0"),
    toml("8 infinite mass", "mass = 1.5", "mass = inf", "wrong-value", ":15:"),
    urdf("9 negative mass", '"1.5"', '"-1.5"', "negative-mass", ":11:", "link 'l1'", "-1.5 kg"),
    mjcf("9 negative mass", 'mass="1.5"', 'mass="-1.5"', "negative-mass", ":6:", "-1.5 kg"),
    toml("9 negative mass", "mass = 1.5", "mass = -1.5", "wrong-value", ":15:", "a number > 0"),
    mjcf("10 zero mass", 'mass="1.5"', 'mass="0"', "zero-mass", ":4:", "body 'l1'"),
    toml("10 zero mass", "mass = 1.5", "mass = 0", "wrong-value", ":15:", "a number > 0"),
    urdf("11 decimal comma", '"1.5"', '"1,5"', "number", ":11:", "'1,5'", "write '1.5'"),
    urdf("11 unit", '"1.5"', '"1.5kg"', "number", ":11:", "'1.5kg'", "write '1.5'"),
    urdf("11 commas between", '"0 0 0.1"', '"0,0,0.1"', "number", ":10:", "separated by blanks"),
    urdf("11 two numbers", '"0 0 0.1"', '"0 0.1"', "number-count", ":10:", "3 numbers"),
    urdf("11 nothing", '"1.5"', '""', "number-count", ":11:", "1 number"),
    urdf("11 underscore", '"1.5"', '"1_5"', "number", ":11:"),
    mjcf("11 decimal comma", 'mass="1.5"', 'mass="1,5"', "number", ":6:", "write '1.5'"),
    mjcf("11 unit", 'range="-90 90"', 'range="-90deg 90deg"', "number", ":5:", "joint 'j1'", "write '-90'"),
    toml("11 text", "mass = 1.5", 'mass = "1.5"', "wrong-value", ":15:", "a number > 0"),
    toml("11 decimal comma", "mass = 1.5", "mass = 1,5", "toml-syntax", ":15:"),
    urdf("13 inertia", 'ixx="0.1"', 'ixx="-0.1"', "inertia-not-psd", ":8:", "link 'l1'", "[-0.1, 0.1, 0.1]"),
    mjcf("13 inertia", '"0.1 0.1 0.1"', '"0.1 -0.1 0.1"', "inertia-not-psd", ":4:", "body 'l1'", "[-0.1, 0.1, 0.1]"),
    mjcf("13 full inertia", 'diaginertia="0.1 0.1 0.1"', 'fullinertia="0.1 0.1 0.1 0.5 0 0"', "inertia-not-psd", ":4:",
         "-0.4"),
    toml("13 inertia", "xx = 0.1", "xx = -0.1", "inertia-not-psd", ":14:", "joint 'j2'", "[-0.1, 0.1, 0.1]"),
    urdf("15 zero axis", '"0 0 1"', '"0 0 0"', "zero-axis", ":5:", "joint 'j1'"),
    urdf("15 nan axis", '"0 0 1"', '"0 0 nan"', "not-finite", ":5:", "joint 'j1'"),
    mjcf("15 zero axis", 'axis="0 0 1"', 'axis="0 0 0"', "zero-axis", ":5:", "joint 'j1'"),
    mjcf("15 nan axis", 'axis="0 0 1"', 'axis="0 nan 1"', "not-finite", ":5:"),
    toml("15 zero axis", "axis = [0.0, 0.0, 1.0]", "axis = [0, 0, 0]", "zero-axis", ":5:", "'j1'", text=PLACED),
    toml("15 nan axis", "axis = [0.0, 0.0, 1.0]", "axis = [0, 0, nan]", "wrong-value", ":5:", text=PLACED),
    urdf("17 limits", 'lower="-1"', 'lower="2"', "limits-swapped", ":6:", "joint 'j1'", "lower limit 2 > upper limit 1"),
    mjcf("17 limits", '"-90 90"', '"90 -90"', "limits-swapped", ":5:", "joint 'j1'", "lower limit 90 > upper limit -90"),
    toml("17 limits", "lower = -1.0", "lower = 2.0", "limits-swapped", ":10:", "joint 'j1'", "lower limit 2 > upper limit 1"),
    urdf("18 cycle", "</robot>", SECOND + '</joint><joint name="j3" type="fixed"><parent link="l2"/><child link="l1"/>'
         "</joint></robot>", "two-parents", "'j1' (line 3)", "'j3' (line 15)"),
    urdf("18 cyclic island", "</robot>", '<link name="a"/><link name="b"/>\n<joint name="ab" type="fixed"><parent '
         'link="a"/><child link="b"/></joint>\n<joint name="ba" type="fixed"><parent link="b"/><child link="a"/>'
         "</joint></robot>", "cycle", "a -> b -> a", ":17:"),
    urdf("18 own parent", '<child link="l1"/>', '<child link="base"/>', "cycle", "base -> base", ":3:"),
    urdf("19 two parents", "</robot>", '<link name="p"/><joint name="j2" type="fixed"><parent link="p"/>'
         '<child link="l1"/></joint></robot>', "two-parents", "'l1'", "'j1' (line 3)", "'j2' (line 15)"),
    urdf("20 two roots", "</robot>", '<link name="alone"/></robot>', "two-roots", "base, alone", "--root", ":15:"),
    Case("20 wrong root", ARM, InputError, "unknown-link", ("'bse'", "did you mean 'base'?"), root="bse"),
    Case("20 wrong MJCF root", MJCF, InputError, "no-joints", ("below body 'x'", "l1"), "robot.xml", root="x"),
    urdf("21 duplicate link", "</robot>", '<link name="l1"/></robot>', "duplicate-link", "'l1'", "lines 8 and 15"),
    urdf("21 duplicate joint", "</robot>", '<link name="l2"/><joint name="j1" type="fixed"><parent link="l1"/>'
         '<child link="l2"/></joint></robot>', "duplicate-joint", "'j1'", "lines 3 and 15"),
    mjcf("21 duplicate body", "</body>\n", '</body>\n    <body name="l1"><joint name="j2"/></body>\n', "duplicate-body",
         "'l1'", "lines 4 and 8"),
    mjcf("21 duplicate joint", "</body>\n", '</body>\n    <body name="l2"><joint name="j1"/></body>\n',
         "duplicate-joint", "'j1'", "lines 5 and 8"),
    toml("21 duplicate joint", '"j2"', '"j1"', "duplicate-joint", ":13:", "'j1'", "first in line 8"),
    urdf("22 unknown child", '<child link="l1"/>', '<child link="l1x"/>', "unknown-link", ":3:", "child link 'l1x'",
         "did you mean 'l1'?"),
    urdf("22 unknown parent", '<parent link="base"/>', '<parent link="bas"/>', "unknown-link", ":3:",
         "parent link 'bas'", "did you mean 'base'?"),
    urdf("22 no child", '<child link="l1"/>', "", "joint-ends", ":3:", "joint 'j1'", "child"),
    toml("22 unknown parent", 'name = "j2"', 'name = "j2"\nparent = "j3"', "unknown-parent", ":14:", "'j3'", "j1"),
    urdf("23 unknown type", '"revolute"', '"revolut"', "joint-type", ":3:", "'revolut'",
         "revolute, continuous, prismatic, fixed", "did you mean 'revolute'?"),
    Case("23 floating above the base", swap(ARM, "</robot>", SECOND.replace("revolute", "floating") + "</joint></robot>"),
         InputError, "joint-type", ("'floating'", "--lock 'j2=0'")),
    mjcf("23 unknown type", 'axis="0 0 1"', 'type="screw"', "joint-type", ":5:", "'screw'", "hinge or slide"),
    mjcf("23 ball joint", 'axis="0 0 1" range="-90 90"', 'type="ball"', "joint-type", ":5:", "'j1'", "--lock 'j1=0'"),
    mjcf("23 nothing but a free joint", '<joint name="j1" axis="0 0 1" range="-90 90"/>', '<freejoint name="f"/>',
         "no-joints"),
    toml("23 unknown type", 'name = "j2"', 'name = "j2"\ntype = "revolut"', "wrong-value", ":14:", "'revolute'"),
    urdf("24 mimics itself", "</joint>", '<mimic joint="j1"/></joint>', "mimic-cycle", ":3:", "j1 -> j1"),
    Case("24 mimic cycle", swap(swap(ARM, "</joint>", '<mimic joint="j2"/></joint>'), "</robot>",
         SECOND + LIMIT + '<mimic joint="j1"/></joint></robot>'), InputError, "mimic-cycle", ("j1 -> j2 -> j1",)),
    Case("26 description outside", 'urdf = "../other.urdf"', RefusedError, "outside-root", (":1:", "../other.urdf"),
         "robot.toml"),
    Case("27 http description", 'urdf = "http://example.org/x.urdf"', RefusedError, "remote-file", (":1:",),
         "robot.toml"),
    mjcf("28 include outside", "<worldbody>", '<include file="../x.xml"/><worldbody>', "outside-root", ":3:",
         "'../x.xml'", error=RefusedError),
    mjcf("28 absolute include", "<worldbody>", '<include file="/etc/passwd"/><worldbody>', "outside-root", ":3:",
         error=RefusedError),
    mjcf("28 include missing", "<worldbody>", '<include file="x.xml"/><worldbody>', "file-missing", "x.xml"),
    mjcf("28 include of itself", "<worldbody>", '<include file="robot.xml"/><worldbody>', "include-twice", ":3:"),
    Case("28 include twice", swap(MJCF, "<worldbody>", '<include file="a.xml"/><include file="a.xml"/><worldbody>'),
         InputError, "include-twice", (":3:", "a.xml"), "robot.xml", {"a.xml": "<mujoco/>"}),
    Case("28 entity in include", swap(MJCF, "<worldbody>", '<include file="a.xml"/><worldbody>'), RefusedError,
         "xml-doctype", ("a.xml:1:",), "robot.xml", {"a.xml": "<!DOCTYPE mujoco><mujoco/>"}),
    Case("28 error in include", swap(MJCF, "<worldbody>", '<include file="a.xml"/><worldbody>'), InputError,
         "not-finite", ("a.xml:2:",), "robot.xml", {"a.xml": '<mujoco>\n<option timestep="nan"/></mujoco>'}),
    mjcf("28 other model", "<worldbody>", '<asset><model name="m" file="m.xml"/></asset><worldbody>', "mjcf-attach",
         ":3:", "m.xml"),
    mjcf("29 replicate", "</body>\n", '<replicate count="100000000"><body/></replicate></body>\n', "xml-size",
         ":7:", "1e+08 elements", error=RefusedError),
    mjcf("29 replicate of nothing", "</body>\n", '<replicate count="many"><body/></replicate></body>\n', "number",
         ":7:", "count"),
    mjcf("29 height field", "<worldbody>", '<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>'
         "<worldbody>", "mjcf-hfield", ":3:", "1e+10", error=RefusedError),
    mjcf("30 nan gravity", '"0 0 -9.81"', '"0 0 nan"', "not-finite", ":2:", "gravity"),
    mjcf("30 infinite gravity", '"0 0 -9.81"', '"0 0 -inf"', "not-finite", ":2:", "gravity"),
    mjcf("30 nan timestep", '"0.002"', '"nan"', "not-finite", ":2:", "timestep"),
    toml("30 nan gravity", "-9.81", "nan", "wrong-value", ":3:", "gravity"),
    toml("31 rows", "  [0.0, 0.0, 0.3, 0.0],\n", "", "dh-rows", ":4:", "1 rows of dh for 2 joints"),
    toml("31 short row", "[0.1, 1.5, 0.0, 0.0]", "[0.1, 1.5, 0.0]", "dh-rows", ":6:", "row 2"),
    toml("31 convention", '"modified_dh"', '"dh"', "wrong-value", ":2:", "'dh'", "'standard_dh', 'modified_dh'"),
    toml("31 no convention", 'convention = "modified_dh"\n', "", "no-convention", "standard_dh"),
    toml("31 mixed", 'name = "j2"', 'name = "j2"\nxyz = [0.0, 0.0, 1.0]', "mixed-convention", ":14:", "joint 'j2'"),
    toml("31 two sources", 'name = "j2"', 'name = "j2"\nalpha = 1.0', "two-sources", ":14:", "alpha"),
    toml("31 rows of placements", '"modified_dh"', '"placements"', "mixed-convention", ":4:", "dh"),
    toml("31 missing parameter", "xyz = [0.0, 0.0, 0.3]\naxis = [0.0, 0.0, 1.0]", "a = 1.0", "missing-key", ":2:",
         "alpha, d", text=PLACED.replace("placements", "standard_dh")),
    toml("31 not a rotation", "xyz = [0.0, 0.0, 0.3]", "rotation = [[1, 0, 0], [0, 1, 0], [0, 0, 2]]",
         "not-a-rotation", ":4:", text=PLACED),
    Case("61 unknown key", swap(TOML, "lower", "lowr"), InputError, "unknown-key", (":10:", "did you mean 'lower'?"),
         "robot.toml"),
    toml("gear ratio", 'name = "j2"', 'name = "j2"\ndrive.gear_ratio = 0.0', "gear-ratio", ":14:", "joint 'j2'"),
    toml("transmission", 'name = "j2"', 'name = "j2"\n[drive]\ntransmission = [[1.0, 1.0], [1.0, 1.0]]',
         "singular-transmission", ":15:", text=TOML[: TOML.index("[joint.inertial]")]),
    Case("description of a description", 'urdf = "robot.toml"', InputError, "robot-format", ("robot.toml",), "robot.toml"),
    Case("root of a description", TOML, DynidError, "root", ("--root base",), "robot.toml", root="base"),
    mjcf("unknown class", '<joint name="j1"', '<joint class="z" name="j1"', "mjcf", ":5:", "'z'", "does not compile"),
    mjcf("unknown attribute", '<joint name="j1"', '<joint foo="z" name="j1"', "mjcf", ":5:", "'foo'"),
]  # fmt: skip

MESH = '</inertial><visual><geometry><mesh filename="missing.stl"/></geometry></visual>'
WARNINGS = [
    ("12 no inertial", ARM[: ARM.index("    <inertial>")] + "  </link>\n</robot>", "robot.urdf", "inertial-missing", 8,
     "'l1'"),
    ("12 MJCF no inertial", MJCF.replace('      <inertial pos="0 0 0.1" mass="1.5" diaginertia="0.1 0.1 0.1"/>\n', ""),
     "robot.xml", "inertial-missing", 4, "'l1'"),
    ("12 MJCF mesh only", MJCF.replace('<inertial pos="0 0 0.1" mass="1.5" diaginertia="0.1 0.1 0.1"/>',
     '<geom type="mesh" mesh="m"/><geom size="0.1"/>'), "robot.xml", "inertial-missing", 4, "'l1'"),
    ("14 triangle", swap(ARM, 'izz="0.1"', 'izz="0.3"'), "robot.urdf", "triangle-inequality", 8, "[0.1, 0.1, 0.3]"),
    ("14 MJCF triangle", swap(MJCF, "0.1 0.1 0.1", "0.1 0.1 0.3"), "robot.xml", "triangle-inequality", 4, "'l1'"),
    ("14 TOML triangle", swap(TOML, "zz = 0.1", "zz = 0.3"), "robot.toml", "triangle-inequality", 14, "'j2'"),
    ("15 axis", swap(ARM, '"0 0 1"', '"0 0 2"'), "robot.urdf", "axis-length", 5, "length 2"),
    ("15 MJCF axis", swap(MJCF, '"0 0 1" range', '"0 3 4" range'), "robot.xml", "axis-length", 5, "length 5"),
    ("15 TOML axis", swap(PLACED, "axis = [0.0, 0.0, 1.0]", "axis = [0, 0, 2]"), "robot.toml", "axis-length", 5,
     "length 2"),
    ("10 zero mass", swap(ARM, '"1.5"', '"0"'), "robot.urdf", "zero-mass", 8, "prior is unknown"),
    ("24 mimic missing", swap(ARM, "</joint>", '<mimic joint="j9"/></joint>'), "robot.urdf", "mimic-missing", 3,
     "'j1' mimics 'j9'"),
    ("16 no limit", swap(ARM, '    <limit lower="-1" upper="1" velocity="2" effort="3"/>\n', ""), "robot.urdf",
     "limit-missing", 3, "'j1'"),
    ("16 no limit of the position", swap(ARM, 'lower="-1" upper="1" ', ""), "robot.urdf", "limit-missing", 6, "no lower"),
    ("24 MJCF coupling", swap(MJCF, "<worldbody>", '<equality><joint joint1="j1"/></equality><worldbody>'), "robot.xml",
     "mjcf-left-out", 3, "<equality>"),
]  # fmt: skip


def visual(name: str) -> str:
    """The arm with a visual mesh of that name."""
    return swap(
        ARM, "</inertial>", f'</inertial><visual><geometry><mesh filename="{name}"/></geometry></visual>'
    )


def _asset(file: str) -> str:
    return swap(MJCF, "<worldbody>", f'<asset><mesh name="m" file="{file}"/></asset><worldbody>')


ABSENT = [
    ("25 mesh", swap(ARM, "</inertial>", MESH), "robot.urdf", 13, "mesh-missing", "missing.stl"),
    ("25 MJCF mesh", _asset("missing.stl"), "robot.xml", 3, "mesh-missing", "missing.stl"),
    (
        "27 http mesh",
        visual("https://example.org/x.stl"),
        "robot.urdf",
        13,
        "mesh-remote",
        "not downloaded",
    ),
    (
        "27 MJCF http mesh",
        _asset("http://example.org/x.stl"),
        "robot.xml",
        3,
        "mesh-remote",
        "not downloaded",
    ),
]
OUTSIDE = [
    ("26 mesh outside", visual("../x.stl"), "robot.urdf", 13, "'../x.stl'"),
    ("26 absolute mesh", visual("file://TMP/x.stl"), "robot.urdf", 13, "/x.stl'"),
    ("26 mesh behind a link", visual("link.stl"), "robot.urdf", 13, "'link.stl'"),
    ("26 out of its package", visual("package://a/../../x.stl"), "robot.urdf", 13, "'package://a/../../x.stl'"),
    ("26 MJCF mesh outside", swap(MJCF, "<worldbody>", '<asset><mesh name="m" file="../x.stl"/></asset><worldbody>'),
     "robot.xml", 3, "'../x.stl'"),
    ("26 meshdir outside", swap(MJCF, "<worldbody>", '<compiler meshdir="TMP"/><asset><mesh name="m" file="x.stl"/>'
     "</asset><worldbody>"), "robot.xml", 3, "/x.stl'"),
]  # fmt: skip


def read(text: str | bytes, path: Path, root: str | None = None) -> tuple[RobotModel, Diagnostics]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    diagnostics = Diagnostics()
    return load_robot(path, root=root, diagnostics=diagnostics), diagnostics


def test_the_arms_are_good_before_they_are_broken(tmp_path: Path) -> None:
    for text, file in ((ARM, "a.urdf"), (MJCF, "a.xml"), (TOML, "a.toml"), (PLACED, "b.toml")):
        robot, diagnostics = read(text, tmp_path / file)
        assert robot.joint_names[0] == "j1"
        assert not list(diagnostics)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file.rpartition('.')[2]} {case.name}")
def test_a_bad_description_stops_with_its_place_and_reason(case: Case, tmp_path: Path) -> None:
    for name, text in case.beside.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(case.error) as caught:
        read(case.text, tmp_path / case.file, case.root)
    error, text = caught.value, str(caught.value)
    assert error.identifier == case.identifier, text
    assert text.startswith(f"error[{case.identifier}] ")
    assert "found " in text
    for part in case.says:
        assert part in text
    if case.error is not DynidError:
        assert error.exit_code == case.error.exit_code
        assert error.place.file is not None
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([case.file, *case.beside])


@pytest.mark.parametrize(
    ("text", "file", "identifier", "line", "says"),
    [row[1:] for row in WARNINGS],
    ids=[row[0] for row in WARNINGS],
)
def test_an_odd_description_is_read_with_a_warning(
    text: str, file: str, identifier: str, line: int | None, says: str, tmp_path: Path
) -> None:
    robot, diagnostics = read(text, tmp_path / file)
    found = [item for item in diagnostics.warnings if item.identifier == identifier]
    assert [item.place.line for item in found] == [line]
    assert says in found[0].text
    assert np.allclose(np.linalg.norm(robot.axis, axis=1), 1.0)


@pytest.fixture
def opened() -> Iterator[set[str]]:
    """Every path that Python opens or lists while a test runs."""
    paths: set[str] = set()
    watching = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event in ("open", "os.listdir", "os.scandir"):
            paths.add(str(arguments[0]))

    sys.addaudithook(hook)  # cannot be taken away again, so it is made to stop
    yield paths
    watching = False


@pytest.mark.parametrize(
    ("text", "file", "line", "says"), [row[1:] for row in OUTSIDE], ids=[row[0] for row in OUTSIDE]
)
def test_a_mesh_outside_is_noted_and_never_opened(
    text: str, file: str, line: int, says: str, tmp_path: Path, opened: set[str]
) -> None:
    folder = tmp_path / "a" / "urdf"
    folder.mkdir(parents=True)
    for place in (tmp_path, tmp_path / "a"):
        (place / "x.stl").write_bytes(b"not for dynid")
    (folder / "link.stl").symlink_to(tmp_path / "x.stl")
    opened.clear()
    robot, diagnostics = read(text.replace("TMP", str(tmp_path)), folder / file)
    assert robot.n == 1
    (note,) = diagnostics
    assert (note.severity, note.identifier, note.place.line) == ("note", "mesh-outside", line)
    assert says in note.text
    assert "dynid limits" in note.text
    assert str(folder / file) in opened
    assert not [one for one in opened if one.endswith("x.stl") or one.endswith("link.stl")]


def test_many_absent_meshes_are_one_message(tmp_path: Path) -> None:
    meshes = "".join(f'<visual><geometry><mesh filename="m{k}.stl"/></geometry></visual>' for k in range(6))
    _, diagnostics = read(swap(ARM, "</inertial>", "</inertial>" + 2 * meshes), tmp_path / "robot.urdf")
    (warning,) = diagnostics
    assert warning.identifier == "mesh-missing"
    assert "'m3.stl' and 2 more are not found" in warning.text


def test_meshes_of_a_package_that_is_not_here_are_a_note(tmp_path: Path) -> None:
    _, diagnostics = read(visual("package://arm/meshes/x.stl"), tmp_path / "robot.urdf")
    (note,) = diagnostics
    assert (note.severity, note.identifier) == ("note", "mesh-missing")
    (tmp_path / "arm" / "meshes").mkdir(parents=True)
    (tmp_path / "arm" / "package.xml").write_text("<package/>")
    (tmp_path / "arm" / "meshes" / "x.stl").write_bytes(b"")
    assert not list(read(visual("package://arm/meshes/x.stl"), tmp_path / "robot.urdf")[1])


@pytest.mark.parametrize(
    ("text", "file", "line", "identifier", "says"),
    [row[1:] for row in ABSENT],
    ids=[row[0] for row in ABSENT],
)
def test_a_mesh_that_is_not_needed_is_a_note(
    text: str, file: str, line: int, identifier: str, says: str, tmp_path: Path
) -> None:
    _, diagnostics = read(text, tmp_path / file)
    (note,) = diagnostics
    assert (note.severity, note.identifier, note.place.line) == ("note", identifier, line)
    assert says in note.text


def test_unknown_priors_are_not_numbers(tmp_path: Path) -> None:
    for row in WARNINGS[:3]:
        robot, _ = read(row[1], tmp_path / row[2])
        assert np.isnan(robot.inertia_prior).all()


def test_a_triangle_violating_prior_is_kept_as_it_is(tmp_path: Path) -> None:
    for row in (row for row in WARNINGS if row[0] in ("14 triangle", "14 MJCF triangle")):
        robot, _ = read(row[1], tmp_path / row[2])
        offset = 1.5 * 0.1**2
        assert robot.inertia_prior[0, 4:] == pytest.approx(
            [0.1 + offset, 0, 0.1 + offset, 0, 0, 0.3], abs=1e-14
        )
