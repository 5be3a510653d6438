"""The same log in any format gives the same samples and the same model."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.base import DynidError, InputError, RefusedError, ResourceError, files
from dynid.estimate import WLS
from dynid.log import CsvReader, Log, contents, open_table, read_log
from dynid.robot import RobotModel, load_robot
from dynid.terms import RigidBody, Viscous
from tests.log import formats

pytestmark = pytest.mark.usefixtures("unexamined")

T = 300
t = np.arange(T) / 200.0
rng = np.random.default_rng(5)
q, dq, tau = rng.normal(size=(3, T, 2))
ARRAYS = {"time": t, "q": q, "dq": dq, "tau": tau}
MAPPING = {
    "time": {"column": "time", "unit": "s"},
    "position": {"columns": "q[{index}]", "unit": "rad"},
    "velocity": {"columns": "dq[:]", "unit": "rad/s"},
    "effort": {"columns": "tau[0:2]", "unit": "N m"},
}


def deep(folder: str) -> dict[str, Any]:
    """The mapping with every array in a folder."""

    def moved(entry: dict[str, str]) -> dict[str, str]:
        return {key: folder + value if key.startswith("column") else value for key, value in entry.items()}

    return {key: moved(entry) for key, entry in MAPPING.items()}


def lists(path: Path) -> Path:
    pq.write_table(pa.table({k: list(v) for k, v in ARRAYS.items()}), path, row_group_size=77)
    return path


WRITERS: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "npz": ("x.npz", lambda path: formats.npz(path, ARRAYS), ""),
    "npy": ("x.npy", lambda path: formats.npy(path, ARRAYS), ""),
    "npz, arrays transposed": (
        "x.npz",
        lambda path: formats.npz(path, {k: v.T for k, v in ARRAYS.items()}),
        "",
    ),
    "MATLAB 5": ("x.mat", lambda path: formats.mat(path, ARRAYS), ""),
    "MATLAB 5, plain": ("x.mat", lambda path: formats.mat(path, ARRAYS, compressed=False), ""),
    "MATLAB 5, struct": ("x.mat", lambda path: formats.mat(path, {"state": ARRAYS}), "state."),
    "MATLAB 7.3": ("x.mat", lambda path: formats.hdf5(path, ARRAYS, matlab=True), ""),
    "HDF5": ("x.h5", lambda path: formats.hdf5(path, ARRAYS), ""),
    "HDF5, group": (
        "x.h5",
        lambda path: formats.hdf5(path, {f"state/{k}": v for k, v in ARRAYS.items()}),
        "state/",
    ),
    "PyTorch": ("x.pt", lambda path: formats.torch(path, ARRAYS), ""),
    "PyTorch, nested": (
        "x.pt",
        lambda path: formats.torch(path, {"state": OrderedDict(ARRAYS)}, 4),
        "state.",
    ),
    "PyTorch, big endian": ("x.pt", lambda path: formats.torch(path, ARRAYS, 3, "big"), ""),
    "Parquet with lists": ("x.parquet", lists, ""),
    "LeRobot 2.1": ("x", lambda path: formats.lerobot(path, ARRAYS, ("0", "1"), [T], "v2.1"), ""),
    "LeRobot 3": ("x", lambda path: formats.lerobot(path, ARRAYS, ("0", "1"), [T], "v3.0"), ""),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_the_same_samples_in_any_format(kind: str, robot: RobotModel, tmp_path: Path) -> None:
    name, write, folder = WRITERS[kind]
    path = write(tmp_path / name)
    log = read_log(path, robot, deep(folder))
    (one,) = log.trajectories
    chunk = log.read(one)
    for found, wanted in ((chunk.t, t), (chunk.q, q), (chunk.dq, dq), (chunk.tau, tau)):
        assert found is not None
        np.testing.assert_array_equal(found, wanted)
    pieces = list(log.chunks(one, 41))
    np.testing.assert_array_equal(np.concatenate([piece.q for piece in pieces]), q)
    assert log.sha256 == read_log(path, robot, deep(folder)).sha256
    (stream,) = contents(path).streams
    assert {f"{folder}{one}" for one in formats.flat(ARRAYS)} <= {column.name for column in stream.columns}
    (clock,) = [column for column in stream.columns if column.name == f"{folder}time"]
    assert clock.step == pytest.approx(1 / 200)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_episodes_are_trajectories(version: str, robot: RobotModel, tmp_path: Path) -> None:
    clock = np.concatenate([t[:100], t[:80], t[:120]])
    path = formats.lerobot(
        tmp_path / "set", ARRAYS | {"time": clock}, ("a.pos", "b.pos"), [100, 80, 120], version
    )
    log = read_log(
        path,
        robot,
        MAPPING
        | {
            "position": {"columns": {"shoulder": "q[a.pos]", "elbow": "q[b.pos]"}, "unit": "rad"},
            "velocity": {"columns": ["dq[a.pos]", "dq[b.pos]"], "unit": "rad/s"},
            "effort": {"columns": ["tau[a.pos]", "tau[b.pos]"], "unit": "N m"},
        },
    )
    assert [(one.name, one.row_count) for one in log.trajectories] == [("0", 100), ("1", 80), ("2", 120)]
    np.testing.assert_array_equal(log.read(log.trajectories[1]).q, q[100:180])
    assert not log.remarks
    (stream,) = contents(path).streams
    assert (stream.rate, stream.row_count) == (200.0, T)
    info = path / "meta" / "info.json"
    info.write_text(info.read_text().replace('"total_frames": 300', '"total_frames": 301'))
    assert "lists 301 rows, but the data have 300" in read_log(path, robot, MAPPING | {
        "position": {"columns": ["q[a.pos]", "q[b.pos]"], "unit": "rad"},
        "velocity": {"columns": ["dq[a.pos]", "dq[b.pos]"], "unit": "rad/s"},
        "effort": {"columns": ["tau[a.pos]", "tau[b.pos]"], "unit": "N m"},
    }).remarks[0].text  # fmt: skip


def test_frames_with_lists_are_logs(robot: RobotModel) -> None:
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    for frame in (
        polars.DataFrame({k: list(v) if v.ndim == 2 else v for k, v in ARRAYS.items()}),
        pandas.DataFrame({k: list(v) for k, v in ARRAYS.items()}),
        pa.table({k: list(v) for k, v in ARRAYS.items()}),
    ):
        log = Log.from_frame(frame, robot, MAPPING)
        np.testing.assert_array_equal(log.read(log.trajectories[0]).q, q)


def test_what_is_no_column_is_named(tmp_path: Path) -> None:
    path = formats.npz(
        tmp_path / "x.npz",
        ARRAYS | {"kp": np.array(80.0), "image": np.zeros((T, 4, 4)), "who": np.array(["a", "b"])},
    )
    assert contents(path).left_out == ("kp = 80.0", f"image: {T}x4x4 of float64", "who = a, b")
    assert "kp = 80.0" in "\n".join(contents(path).lines())
    np.savez(tmp_path / "o.npz", **ARRAYS, what=np.array([{}, None], dtype=object))
    assert "what: Python objects, which are never loaded" in contents(tmp_path / "o.npz").left_out


def test_arrays_of_other_lengths_are_streams(robot: RobotModel, tmp_path: Path) -> None:
    path = formats.npz(tmp_path / "x.npz", ARRAYS | {"tau": tau[::3], "tau_time": t[::3]})
    found = contents(path)
    assert [(one.name, one.row_count) for one in found.streams] == [("300 rows", 300), ("100 rows", 100)]
    log = read_log(path, robot, MAPPING)
    with pytest.raises(InputError, match=r"different lengths.*time = \{ column"):
        log.read(log.trajectories[0])


def test_the_same_model_from_any_format(robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    robot = load_robot(robot_file)
    table = pq.read_table(train_log)
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    lines = [
        ";".join(columns),
        *(";".join(map(repr, row)) for row in zip(*(v.tolist() for v in columns.values()), strict=True)),
    ]
    (tmp_path / "x.txt").write_text("\n".join(lines).replace(".", ","))
    paths = (
        train_log,
        tmp_path / "x.txt",
        formats.npz(tmp_path / "x.npz", columns),
        formats.mat(tmp_path / "x.mat", columns),
        formats.hdf5(tmp_path / "x.h5", columns),
        formats.torch(tmp_path / "x.pt", columns),
        formats.lerobot(tmp_path / "x", columns, (), [len(columns["t"])], "v3.0"),
    )
    settings = dynid.Settings(terms=RigidBody() + Viscous(), estimator=WLS())
    first, *others = (dynid.identify(robot, read_log(path, robot), settings) for path in paths)
    for other in others:
        np.testing.assert_array_equal(other.estimate.value, first.estimate.value)
        assert other.verdict.word == first.verdict.word


class Evil:
    def __reduce__(self) -> Any:
        return print, ("run",)


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
@pytest.mark.parametrize(
    "content",
    [{"x": Evil()}, {"x": {1, 2}}, {"x": b"bytes"}, {"x": 1 + 2j}, {"x": np.float64(3)}, {(1, 2): 3}],
)
def test_nothing_of_an_index_runs(
    content: Any, protocol: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = formats.archive(tmp_path / "x.pt", pickle.dumps(content, protocol), [])
    with pytest.raises(RefusedError, match="index, which is not executed"):
        open_table(path)
    assert capsys.readouterr().out == ""


SHARED = [float(i % 7) for i in range(100_000)]
LONG_NAME = "n" * 200_000


@pytest.mark.parametrize(
    "content",
    [
        {f"channel{i}": SHARED for i in range(3_000)},
        {f"part{i}": {f"channel{j}": SHARED for j in range(100)} for i in range(30)},
        {LONG_NAME: {f"channel{i}": [1.0, 2.0] for i in range(3_000)}},
        {f"text{i}": ["x"] * 100_000 for i in range(2)} | {f"again{i}": SHARED for i in range(1_000)},
    ],
    ids=["list", "nested", "name", "text"],
)
def test_a_list_under_many_names_is_refused_before_it_takes_memory(content: Any, tmp_path: Path) -> None:
    """The index refers to one list of 0.8 MB many times: 10 kB in the file, 2.4 GB as columns."""
    path = tmp_path / "x.pt"
    formats.archive(path, pickle.dumps(content, 2), [], compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 60_000
    refused_within(path)


def test_copies_of_a_size_spend_the_budget(tmp_path: Path) -> None:
    """torch.Size makes a tuple of a list; six bytes of the index ask for another one of 0.8 MB."""
    zeros = b"]q\x00(" + b"K\x00" * 100_000 + b"e"
    name = b"ctorch\nSize\nq\x01"
    sizes = b"(" + b"h\x01h\x00\x85R" * 1_000 + b"t"
    path = formats.archive(
        tmp_path / "x.pt", b"\x80\x02" + zeros + name + sizes + b".", [], compression=zipfile.ZIP_DEFLATED
    )
    assert path.stat().st_size < 10_000
    refused_within(path)


def refused_within(path: Path) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RefusedError) as stopped:
            open_table(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 400e6  # the budget of a small file is 268 MB
    assert stopped.value.exit_code == 7
    assert stopped.value.identifier == "too-large"
    assert len(str(stopped.value).replace(str(path), "x.pt")) < 300


def test_names_of_one_list_are_columns_of_their_own(tmp_path: Path) -> None:
    values = [1.0, 2.5, 4.0]
    path = formats.archive(tmp_path / "x.pt", pickle.dumps({"a": values, "b": values, "c": (1, 2, 3)}, 2), [])
    found = contents(path).read(["a", "b", "c"])
    assert {name: column.tolist() for name, column in found.items()} == {
        "a": values,
        "b": values,
        "c": [1.0, 2.0, 3.0],
    }


def test_tensors_lie_within_their_storages(tmp_path: Path) -> None:
    whole = np.arange(40.0).reshape(10, 4)
    path = formats.torch(
        tmp_path / "x.pt", {"part": whole[2:, 1:3], "turned": whole.T, "numbers": [1, 2.5], "n": 3}
    )
    found = contents(path)
    np.testing.assert_array_equal(found.read(["part[1]"])["part[1]"], whole[2:, 2])
    np.testing.assert_array_equal(found.read(["turned[3]"])["turned[3]"], whole[:, 3])
    assert "n = 3" in found.left_out
    index = open_index(path)
    for old, new in ((b"K\x0a", b"K\x0b"), (b"K\x28", b"K\x29")):  # longer than its storage; than its file
        assert old in index
        formats.archive(tmp_path / "y.pt", index.replace(old, new), [whole.tobytes()] * 3)
        with pytest.raises(InputError, match="damaged"):
            open_table(tmp_path / "y.pt")


def open_index(path: Path) -> bytes:
    import zipfile

    with zipfile.ZipFile(path) as file:
        return file.read("archive/data.pkl")


def claims(path: Path, shape: tuple[int, ...]) -> Path:
    """An array whose header claims a shape that its zeros, well compressed, do have."""
    import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("q.npy", "w") as part:
        np.lib.format.write_array_header_1_0(part, {"descr": "<f8", "fortran_order": False, "shape": shape})
        for _ in range(40):
            part.write(bytes(1 << 23))
    return path


def test_a_small_file_takes_no_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match="too-large"):
        open_table(claims(tmp_path / "x.npz", (40 << 20, 1)))
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("q", (1 << 40,), "f8", chunks=(1024,))
    with pytest.raises(RefusedError, match="too-large"):
        open_table(tmp_path / "x.h5")
    from scipy.io import savemat

    # A hundredth of what is refused is made, by a hundredth of the limit: to pack it whole takes seconds.
    rows = 40 << 20
    monkeypatch.setattr(files, "LEAST_BUDGET", files.LEAST_BUDGET // 100)
    savemat(tmp_path / "x.mat", {"q": np.zeros((rows // 100, 1))}, do_compression=True)
    with pytest.raises(RefusedError, match="too-large"):
        open_table(tmp_path / "x.mat")


def test_hdf5_stays_within_its_file(tmp_path: Path) -> None:
    import h5py

    formats.hdf5(tmp_path / "other.h5", ARRAYS)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["q"] = q
        file["q"].attrs["units"] = "rad"
        file["far"] = h5py.ExternalLink("other.h5", "/q")
        file["soft"] = h5py.SoftLink("/q")
        file["loop"] = file["/"]
        layout = h5py.VirtualLayout((T,), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "time", (T,))
        file.create_virtual_dataset("virtual", layout)
    found = contents(tmp_path / "x.h5")
    assert [one.name for one in found.columns] == ["q[0]", "q[1]"]
    assert found.columns[0].info.unit == "rad"
    reported = "\n".join(found.left_out)
    assert all(
        word in reported for word in ("far: a link", "soft: a link", "virtual: numbers in another file")
    )


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = formats.hdf5(tmp_path / "x.h5", ARRAYS)
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(ResourceError, match=r"pip install 'dynid\[hdf5\]'"):
        open_table(path)


FUZZED = (
    "npz",
    "npy",
    "MATLAB 5",
    "MATLAB 5, plain",
    "MATLAB 5, struct",
    "PyTorch",
    "Parquet with lists",
    "LeRobot 3",
)
MUTATIONS = 12


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes with one of: some changed, a piece lost, a piece repeated, the end cut off."""
    kind = rng.integers(4)
    at, size = int(rng.integers(len(data))), int(rng.integers(1, 40))
    if kind == 0:
        changed = bytearray(data)
        for i in rng.integers(len(data), size=int(rng.integers(1, 6))):
            changed[i] = int(rng.choice([0, 255, 127, rng.integers(256)]))
        return bytes(changed)
    if kind == 1:
        return data[:at] + data[at + size :]
    return data[: at + size] + data[at:] if kind == 2 else data[:at]


@pytest.mark.parametrize("kind", FUZZED)
def test_damage_has_one_message(kind: str, robot: RobotModel, tmp_path: Path) -> None:
    name, write, folder = WRITERS[kind]
    path = write(tmp_path / name)
    rng, codes = np.random.default_rng(len(kind)), set()
    file = path if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())[0]
    whole = file.read_bytes()
    for _ in range(MUTATIONS):
        file.write_bytes(mutated(whole, rng))
        # Whatever else were raised would end the test.
        code = 0
        try:
            log = read_log(path, robot, deep(folder))
            log.read(log.trajectories[0])
        except DynidError as error:
            code = error.exit_code
        codes.add(code)
    assert codes <= {0, 3, 4, 7}
    assert codes & {3, 4, 7}


def test_program_that_ends_before_its_log_ends_as_it_wants_to(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("t q\n" + "0.001 0.123456789\n" * 600_000)
    program = (
        "import sys\nfrom pathlib import Path\nfrom dynid.log.readers.csv import CsvReader\n"
        f"batches = CsvReader().open(Path({str(path)!r})).batches(('t', 'q'), 100)\n"
        "assert len(next(batches)['t']) == 100\nsys.exit(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 3, done.stderr


@pytest.mark.parametrize("size", [40, 64, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blocks_of_text_end_with_whole_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, end: str
) -> None:
    rows = [(0.01 * k, f"run {k}{end}again" if k % 3 else "run") for k in range(50)]
    path = tmp_path / "quoted.csv"
    path.write_bytes(("t,name" + end + "".join(f'{t:.2f},"{name}"{end}' for t, name in rows)).encode())
    monkeypatch.setattr("dynid.log.readers.csv.BLOCK_BYTES", size)
    table = CsvReader().open(path)
    found = list(table.batches(("t", "name"), 7))
    assert_allclose(np.concatenate([batch["t"] for batch in found]), [t for t, _ in rows], atol=1e-12)


def test_what_is_no_array_of_matlab_has_its_name(tmp_path: Path) -> None:
    from scipy.io import savemat
    from scipy.sparse import csc_matrix

    savemat(tmp_path / "x.mat", {"q": q, "links": csc_matrix(np.eye(3))})
    assert contents(tmp_path / "x.mat").left_out == ("links: a sparse matrix",)


def test_scopes_of_simulink_call_signals_by_their_labels(tmp_path: Path) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    path = tmp_path / "scope.mat"
    t = np.arange(30)[:, None] / 100
    signals = np.empty((1, 2), dtype=[("values", "O"), ("label", "O"), ("dimensions", "O")])
    signals[0, 0], signals[0, 1] = (
        (np.hstack([t, 2 * t]), "q_meas", 2.0),
        (np.hstack([3 * t, 4 * t]), "tau_meas", 2.0),
    )
    scipy_io.savemat(path, {"ScopeData": {"time": t, "signals": signals, "blockName": "arm/Scope"}})
    table = open_table(path)
    names = tuple(f"ScopeData.{one}[{k}]" for one in ("q_meas", "tau_meas") for k in range(2))
    assert table.column_names == ("ScopeData.time", *names)
    batch = next(iter(table.batches(names, 100)))
    np.testing.assert_array_equal(
        np.stack([np.asarray(one) for one in batch.values()], axis=1), t * [1, 2, 3, 4]
    )
