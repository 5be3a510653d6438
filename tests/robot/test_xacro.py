"""xacro: expanded as its package does it, within the folders that may be read; packages of ROS by name."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dynid.base import Diagnostics, DynidError, InputError, RefusedError, ResourceError
from dynid.feasible import limits_from_description
from dynid.robot import Reading, described_shapes, load_robot
from dynid.robot.xacro import expanded
from dynid.robot.xml import read_xml
from tests.robot.texts import ARM

HEAD = '<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">'
MACRO = (
    HEAD + '<xacro:macro name="link" params="name mass">'
    '<link name="${name}"><inertial><mass value="${mass}"/>'
    '<inertia ixx="${0.1 * mass}" iyy="${0.1 * mass}" izz="${0.1 * mass}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    '<joint name="${name}_joint" type="continuous"><parent link="base"/><child link="${name}"/>'
    '<axis xyz="0 0 1"/></joint>'
    "</xacro:macro></robot>"
)
MAIN = (
    HEAD + '<xacro:arg name="mass" default="2"/>{include}<link name="base"/>'
    '<xacro:link name="l1" mass="$(arg mass)"/>'
    '<xacro:if value="$(arg tool)"><xacro:link name="tool" mass="${{sqrt(4) / 4}}"/></xacro:if></robot>'
)


def written(folder: Path, include: str = '<xacro:include filename="parts/link.xacro"/>') -> Path:
    pytest.importorskip("xacro")
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    (folder / "parts" / "link.xacro").write_text(MACRO)
    (folder / "arm.urdf.xacro").write_text(MAIN.format(include=include))
    return folder / "arm.urdf.xacro"


def test_a_xacro_is_expanded_with_its_arguments(tmp_path: Path) -> None:
    path = written(tmp_path)
    robot = load_robot(path, xacro={"mass": 3, "tool": True})
    assert robot.joint_names == ("l1_joint", "tool_joint")
    assert robot.inertia_prior[:, 0].tolist() == [3.0, 0.5]
    assert robot.source == str(path)
    assert robot.reading.xacro == {"mass": "3", "tool": "true"}
    assert load_robot(path, xacro={"tool": "false"}).inertia_prior[:, 0].tolist() == [2.0]


def test_a_urdf_is_expanded_only_where_that_is_asked_for(tmp_path: Path) -> None:
    """Who opens a URDF expects data."""
    path = written(tmp_path)
    plain = tmp_path / "arm.urdf"
    plain.write_text(path.read_text())
    with pytest.raises(RefusedError, match=r"arm\.urdf:1.*--xacro") as stopped:
        load_robot(plain)
    assert stopped.value.exit_code == 7
    assert stopped.value.identifier == "xacro-unasked"
    assert load_robot(plain, xacro={"tool": "0"}).n == 1
    plain.write_text(path.read_text().replace("$(arg tool)", "true"))
    assert load_robot(plain, xacro=True).n == 2
    with pytest.raises(RefusedError, match="--xacro"):
        load_robot(plain, xacro=False)
    # An expression alone, where xacro is declared.
    plain.write_text(ARM.replace('<robot name="arm">', HEAD).replace('value="1.5"', 'value="${3 / 2}"', 1))
    with pytest.raises(RefusedError, match="--xacro"):
        load_robot(plain)
    assert load_robot(plain, xacro=True).n == 1


def test_a_stored_name_of_a_xacro_runs_no_expression(tmp_path: Path) -> None:
    """Whoever opens a run did not name the file that the run names."""
    path = written(tmp_path)
    robot = load_robot(path, xacro={"tool": "0"})
    shape = '<visual><geometry><box size="0.1 0.1 ${length}"/></geometry></visual>'
    shaped = path.with_name("shaped.urdf.xacro")
    shaped.write_text(
        HEAD + '<xacro:property name="length" value="0.3"/>'
        f'<link name="base"/><link name="l1">{shape}</link><joint name="l1_joint" type="continuous">'
        '<parent link="base"/><child link="l1"/><axis xyz="0 0 1"/></joint></robot>'
    )
    stranger = replace(robot, source=str(shaped), reading=Reading())
    with pytest.raises(InputError, match="not expanded without your request"):
        described_shapes(stranger)
    assert [one.link for one in described_shapes(load_robot(shaped))] == ["l1"]


def test_what_is_expanded_already_needs_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xacro", None)
    (tmp_path / "a.urdf").write_text(ARM.replace("<robot ", '<robot xmlns:xacro="x" '))
    assert load_robot(tmp_path / "a.urdf").n == 1
    (tmp_path / "b.xacro").write_text(HEAD + '<xacro:arm mass="1"/></robot>')
    with pytest.raises(ResourceError, match=r"pip install 'dynid\[xacro\]'"):
        load_robot(tmp_path / "b.xacro")


@pytest.mark.parametrize(
    ("include", "reported", "error", "identifier", "says"),
    [
        (None, {}, InputError, "xacro", "--xacro tool=VALUE"),
        (None, {"tool": "0", "mas": "1"}, InputError, "xacro-argument", "mass, tool"),
        ("${undefined}", {"tool": "0"}, InputError, "xacro", "undefined"),
        ("${1 +}", {"tool": "0"}, InputError, "xacro", "1 +"),
        ("${().__class__}", {"tool": "0"}, RefusedError, "xacro-expression", "__class__"),
        ('<xacro:include filename="none.xacro"/>', {"tool": "0"}, InputError, "file-missing", "none.xacro"),
        ('<xacro:include filename="../out.xacro"/>', {"tool": "0"}, RefusedError, "outside-root", "--packages"),
        ('<xacro:include filename="/etc/passwd"/>', {"tool": "0"}, RefusedError, "outside-root", "/etc/passwd"),
        ('<xacro:include filename="$(find nowhere)/a"/>', {"tool": "0"}, InputError, "package-missing", "nowhere"),
        ('<xacro:include filename="bomb.xacro"/>', {"tool": "0"}, RefusedError, "xml-doctype", "bomb.xacro:1"),
        ('<xacro:property name="p" value="${xacro.load_yaml(\'/etc/hosts\')}"/><link name="${p}"/>', {"tool": "0"},
         RefusedError, "outside-root", "/etc/hosts"),
    ],
)  # fmt: skip
def test_what_does_not_expand_is_named(
    include: str | None,
    reported: dict[str, str],
    error: type[DynidError],
    identifier: str,
    says: str,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "robot"
    path = written(folder) if include is None else written(folder, include)
    (tmp_path / "out.xacro").write_text(MACRO)
    (folder / "bomb.xacro").write_text('<!DOCTYPE r [<!ENTITY a "b">]><r>&a;</r>')
    with pytest.raises(error) as stopped:
        load_robot(path, xacro=reported)
    assert f"[{identifier}]" in str(stopped.value)
    assert says in str(stopped.value)
    assert str(folder) in str(stopped.value)
    # Nothing of what was replaced for the expansion stays.
    import xacro

    assert not hasattr(xacro, "open")


def test_a_package_is_found_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"):
        monkeypatch.delenv(variable, raising=False)
    path = written(tmp_path / "robot", '<xacro:include filename="$(find parts_description)/link.xacro"/>')

    def package(folder: Path, name: str = "parts_description") -> None:
        folder.mkdir(parents=True)
        (folder / "link.xacro").write_text(MACRO)
        (folder / "package.xml").write_text(f"<package>\n <name> {name} </name></package>")

    with pytest.raises(InputError, match="package-missing"):
        load_robot(path, xacro={"tool": "0"})
    package(tmp_path / "named" / "any_folder")
    assert load_robot(path, xacro={"tool": "0"}, packages=tmp_path / "named").n == 1
    assert load_robot(path, xacro={"tool": "0"}, packages=[tmp_path / "named" / "any_folder"]).n == 1
    package(tmp_path / "ros1" / "stack" / "parts_description")
    monkeypatch.setenv("ROS_PACKAGE_PATH", os.pathsep.join(["/nowhere", str(tmp_path / "ros1")]))
    assert load_robot(path, xacro={"tool": "0"}).n == 1
    monkeypatch.delenv("ROS_PACKAGE_PATH")
    package(tmp_path / "ros2" / "share" / "parts_description")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "ros2"))
    assert load_robot(path, xacro={"tool": "0"}).n == 1


def test_meshes_of_a_xacro_are_found_by_their_package(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    package = tmp_path / "arm_description"
    (package / "urdf").mkdir(parents=True)
    (package / "package.xml").write_text("<package><name>arm_description</name></package>")
    mesh = '<collision><geometry><mesh filename="file://$(find {})/x.obj"/></geometry></collision></link>\n</robot>'
    text = ARM.replace('<robot name="arm">', HEAD).replace("</link>\n</robot>", mesh)
    path = package / "urdf" / "arm.xacro"
    path.write_text(text.format("arm_description"))
    said = Diagnostics()
    load_robot(path, diagnostics=said)
    assert [(one.severity, one.identifier) for one in said] == [("note", "mesh-missing")]
    (package / "x.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n")
    (entry,) = limits_from_description(path, Reading())
    assert sorted(entry["hull"]) == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]
    # A mesh of a package that is not here is no more needed than any other.
    path.write_text(text.format("elsewhere"))
    assert load_robot(path).n == 1


def test_files_of_a_renamed_package_are_found_where_they_lie_in_it(tmp_path: Path) -> None:
    """A download of a repository has another name than its package, or is a part of it without package.xml."""
    include = '<xacro:include filename="$(find parts_description)/urdf/parts/macro.xacro"/>'
    path = written(tmp_path / "parts-main" / "urdf", include)
    with pytest.raises(InputError, match="package-missing"):
        load_robot(path, xacro={"tool": "0"})
    beside = tmp_path / "parts-main" / "urdf" / "parts" / "macro.xacro"
    further = tmp_path / "parts_description" / "urdf" / "parts" / "macro.xacro"
    for one in (beside, further):
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_text(MACRO)
        assert load_robot(path, xacro={"tool": "0"}).n == 1
        one.unlink()
    # What such a file includes of another package, which is no more there by its name.
    (tmp_path / "parts-main" / "resources").mkdir()
    (tmp_path / "parts-main" / "resources" / "link.xacro").write_text(MACRO)
    inner = '<xacro:include filename="$(find resources)/link.xacro"/>'
    beside.write_text(f'<robot xmlns:xacro="http://www.ros.org/wiki/xacro">{inner}</robot>')
    assert load_robot(path, xacro={"tool": "0"}).n == 1
    # By its name in the package.xml of a folder above, whatever that is called.
    (tmp_path / "parts-main" / "package.xml").write_text("<package><name>parts_description</name></package>")
    beside.write_text(MACRO)
    assert load_robot(path, xacro={"tool": "0"}).n == 1


@pytest.mark.parametrize(
    "within",
    ["../../secret.xacro", "urdf/../../secret.xacro", "secret.txt", "/secret.xacro", "link/secret.xacro"],
)
def test_what_lies_elsewhere_is_no_file_of_a_package(within: str, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c" / "d" / "urdf"
    path = written(folder, f'<xacro:include filename="$(find parts_description)/{within}"/>')
    for one in (
        tmp_path / "secret.xacro",
        tmp_path / "a" / "b" / "secret.xacro",
        folder.parent / "secret.txt",
    ):
        one.write_text(MACRO)
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(DynidError) as stopped:
        load_robot(path, xacro={"tool": "0"})
    assert stopped.value.identifier in ("package-missing", "outside-root", "xacro", "file-missing")


def test_no_package_is_looked_for_in_a_folder_of_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a description in the user's own folder, or in one of the file system's root."""
    path = written(
        tmp_path / "own" / "robot", '<xacro:include filename="$(find parts_description)/x/link.xacro"/>'
    )
    (tmp_path / "own" / "x").mkdir()
    (tmp_path / "own" / "x" / "link.xacro").write_text(MACRO)
    assert load_robot(path, xacro={"tool": "0"}).n == 1
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    with pytest.raises(InputError, match="package-missing"):
        load_robot(path, xacro={"tool": "0"})
    monkeypatch.setenv("HOME", str(tmp_path / "own" / "robot"))  # the description's folder is no other one's
    (path.parent / "x").mkdir()
    (path.parent / "x" / "link.xacro").write_text(MACRO)
    assert load_robot(path, xacro={"tool": "0"}).n == 1


# Each of the first three ran a shell command when the package xacro 2.1 evaluated it.
SHELL = {
    "frame of a generator": "[(x.append((x[0].gi_frame.f_back.f_back.f_back.f_globals['os'].system('touch MADE') "
    "for i in [1])), list(x[0])) for x in [list()]]",
    "subclasses within a comprehension": "[[c for c in x.__class__.__base__.__subclasses__() if c.__name__ == "
    "'_wrap_close'][0].__init__.__globals__['system']('touch MADE') for x in [()]]",
    "eval of a joined text": "eval('_'+'_imp'+'ort_'+'_')('os').system('touch MADE')",
    "format": "'(0.x)'.format(math)",
    "format_map": "'x'.format_map(python)",
    "format handed on": "list(map('x'.format, [math]))",
    "lambda": "(lambda: 1)()",
    "list comprehension": "[x for x in [1]]",
    "generator": "len(set(x for x in [1]))",
    "subclasses": "().__class__.__base__.__subclasses__()",
    "order of a type's bases": "python.type(1).mro()",
    "type": "python.type('X', (), dict())",
    "type by its key": "python['type']('X', (), dict())",
    "type handed on": "list(map(python.get('type'), [1]))",
    "types of all functions": "list(map(map, list(python.values()), [[1]] * 99)) + [python.type]",
    "vars": "python.vars(math)",
    "builtins": "__builtins__",
    "import": "__import__('os').system('touch MADE')",
    "open": "open('/etc/passwd')",
    "attribute of a table": "math.parent",
    "method of a table": "xacro.top()",
    "bytes": "b'x'.decode()",
    "assignment": "(x := 1)",
    "starred argument": "max(*[1, 2])",
    "formatted text": "f'x'",
    "call of a number": "pi()",
}
# These are not even defined, in one of the two languages at least.
UNDEFINED = ("eval", "open", "python", "list(map(python", "list(map(map", "math.parent", "xacro")
# Where the package evaluates an expression.
PLACES = {
    "attribute": '<link name="${EXPRESSION}"/>',
    "property": '<xacro:property name="p" value="${EXPRESSION}"/><link name="${p}"/>',
    "default of a property": '<xacro:property name="p" default="${EXPRESSION}"/><link name="${p}"/>',
    "condition": '<xacro:if value="${EXPRESSION}"><link name="a"/></xacro:if>',
    "unless": '<xacro:unless value="${EXPRESSION}"><link name="a"/></xacro:unless>',
    "argument of a macro": '<xacro:macro name="m" params="a"/><xacro:m a="${EXPRESSION}"/>',
    "default of a macro": '<xacro:macro name="m" params="a:=${EXPRESSION}"><link name="${a}"/></xacro:macro><xacro:m/>',
    "argument": '<xacro:arg name="a" default="${EXPRESSION}"/><link name="$(arg a)"/>',
    "text": '<xacro:property name="p" value="1"/><link>${EXPRESSION}</link>',
    "element": '<xacro:element xacro:name="${EXPRESSION}"/>',
    "call": '<xacro:call macro="${EXPRESSION}"/>',
    "eval": '<xacro:property name="p" value="EXPRESSION"/><link name="$(eval ${p})"/>',
}


def escaped(expression: str) -> str:
    return expression.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def refusal(folder: Path, body: str, expression: str) -> DynidError:
    """The error for a robot with this expression, none of which is run."""
    pytest.importorskip("xacro")
    made = folder / "made"
    path = folder / "arm.xacro"
    path.write_text(
        HEAD + body.replace("EXPRESSION", escaped(expression.replace("MADE", str(made)))) + "</robot>"
    )
    with pytest.raises(DynidError) as stopped:
        load_robot(path)
    assert not made.exists()
    assert str(folder) in str(stopped.value)
    return stopped.value


@pytest.mark.parametrize("expression", SHELL.values(), ids=SHELL.keys())
@pytest.mark.parametrize("place", ["attribute", "eval"])
def test_an_expression_reaches_no_object_of_python(place: str, expression: str, tmp_path: Path) -> None:
    error = refusal(tmp_path, PLACES[place], expression)
    # A name that is not on the list is not defined.
    assert error.identifier == "xacro-expression" or expression.startswith(UNDEFINED)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_expressions_are_checked_wherever_they_stand(place: str, tmp_path: Path) -> None:
    error = refusal(tmp_path, place, SHELL["frame of a generator"])
    assert error.identifier == "xacro-expression"
    assert error.exit_code == 7
    assert "a comprehension in the expression '[(x.append(" in str(error)


def test_units_of_yaml_are_expressions_of_this_file_alone(tmp_path: Path) -> None:
    """The package adds the tag !degrees to the loader that all of Python shares, with values that it evaluates."""
    yaml = pytest.importorskip("yaml")
    body = (
        '<xacro:property name="p" value="${xacro.load_yaml(\'p.yaml\')}"/>'
        '<xacro:if value="${p.angle &gt; 0}"/><link name="a"/>'
    )
    (tmp_path / "p.yaml").write_text('angle: !degrees "[x for x in [1]]"\n')
    assert refusal(tmp_path, body, "").identifier == "xacro-expression"
    with pytest.raises(yaml.constructor.ConstructorError, match="!degrees"):
        yaml.safe_load("!degrees 1")


def test_ordinary_expressions_are_evaluated(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    (tmp_path / "arm.yaml").write_text(
        "mass: 1.5\nlinks: {upper: {mass: 2, names: [a, b]}}\nangle: !degrees 180\nlist: [1, 2]\n"
    )
    (tmp_path / "part.xacro").write_text(HEAD + '<xacro:property name="length" value="0.25"/></robot>')
    values = {
        "1 + 2 * 3 ** 2 // 4 % 5 - -1": 1 + 2 * 3**2 // 4 % 5 - -1,
        "pi / 2 + math.pi + radians(90) + math.sqrt(4)": 2 * math.pi + 2,
        "mass * 2": 3.0,
        "max(mass, 2, round(2.6))": 3,
        "arm.mass + arm['mass'] + arm.links.upper['mass'] + arm.list[-1]": 7.0,
        "arm.get('nothing', 4)": 4,
        "len(arm.links.upper.names[0:1]) + len([1, (2, 3)])": 3,
        "arm.angle": math.pi,
        "1 if mass > 1 and not mass == 2 or False else 0": 1,
        "1 &lt; mass &lt;= 1.5 and 'b' in arm.links.upper.names": True,
        "(name == 'arm') * 5": 5,
        "float(' 1 2.5 '.strip().split(' ')[1]) + python.sum(map(float, '1 2'.split()))": 5.5,
        "int('%d' % 3) + len('x' * 2)": 5,
        "part.length": 0.25,
        "sorted([3, 1], reverse=True)[0] + python.sorted([3, 1])[0]": 4,
        "xacro.arg('size')": 3,
        "-python.abs(-1.5) if xacro.tokenize('a,b')[1] == 'b' else 0": None,
        "$(eval size * 2 + 1)": None,
        "$(eval 1 if size == 3 and flag else 0)": None,
    }
    lines = [
        '<xacro:arg name="size" default="3"/><xacro:arg name="flag" default="true"/>',
        '<xacro:property name="mass" value="1.5"/><xacro:property name="name" value="arm"/>',
        '<xacro:property name="arm" value="${xacro.load_yaml(\'arm.yaml\')}"/>',
        '<xacro:include filename="part.xacro" ns="part"/>',
    ]
    expressions = [one if one.startswith("$") else f"${{{one}}}" for one in values]
    lines += [f'<link name="{number}" is="{text}"/>' for number, text in enumerate(expressions)]
    path = tmp_path / "arm.urdf.xacro"
    path.write_text(HEAD + "".join(lines) + "</robot>")
    root = expanded(read_xml(path, "a robot"), path, Reading(), Diagnostics())
    found = [one.attributes["is"] for one in root.walk() if one.tag == "link"]
    import xacro

    # As the package does it by itself.
    original = xacro.process_file(str(path)).getElementsByTagName("link")
    assert found == [one.getAttribute("is") for one in original]
    for text, (expression, value) in zip(found, values.items(), strict=True):
        assert value is None or text == str(value) or float(text) == pytest.approx(value), expression


BOMBS = {
    "power": "${9**9**9}",
    "shift": "${1 &lt;&lt; 10**12}",
    "list": "${len([0] * 10**9)}",
    "range": "${len(list(range(10**9)))}",
    "text": "${'x' * 10**10}",
    "zeros": "${'1'.zfill(10**10)}",
    "join": "${('x' * 10**7).join(['y'] * 10**6)}",
    "replacement": "${('x' * 10**6).replace('x', 'y' * 10**6)}",
    "format": "${'%10000000000d' % 1}",
    "width": "${'%*d' % (10**10, 1)}",
}


@pytest.mark.parametrize("expression", BOMBS.values(), ids=BOMBS)
def test_an_expression_has_a_budget(expression: str, tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    path = tmp_path / "a.xacro"
    path.write_text(f'{HEAD}<link name="{expression}"/></robot>')
    with pytest.raises(RefusedError, match="too-large"):
        load_robot(path)


@pytest.mark.parametrize("kind", ["macros", "properties"])
def test_what_multiplies_has_a_budget(kind: str, tmp_path: Path) -> None:
    """Ten levels, each of which has the one below ten times."""
    pytest.importorskip("xacro")
    if kind == "macros":
        levels = [
            f'<xacro:macro name="m{i}">' + f"<xacro:m{i - 1}/>" * 10 + "</xacro:macro>" for i in range(1, 10)
        ]
        text = '<xacro:macro name="m0"><link name="l"/></xacro:macro>' + "".join(levels) + "<xacro:m9/>"
    else:
        levels = [f'<xacro:property name="p{i}" value="{f"${{p{i - 1}}}" * 10}"/>' for i in range(1, 10)]
        text = '<xacro:property name="p0" value="xxxx"/>' + "".join(levels) + '<link name="${p9}"/>'
    path = tmp_path / "a.xacro"
    path.write_text(f"{HEAD}{text}</robot>")
    with pytest.raises(RefusedError, match="too-large"):
        load_robot(path)
