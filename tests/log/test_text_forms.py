"""Text that programs print without a table in mind holds the same log as arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float, InputError
from dynid.log import CsvTable, Table, contents, open_table
from dynid.log.clocks import column_numbers

T = 60
rng = np.random.default_rng(7)
t = np.round(np.arange(T) / 100.0, 6)
q, tau = (np.round(one, 6) for one in rng.normal(size=(2, T, 3)))
ALL = np.column_stack([t, q, tau])


def read(table: Table, names: tuple[str, ...]) -> Float:
    parts = [
        np.stack([column_numbers(one[name], name, table, 0) for name in names], axis=1)
        for one in table.batches(names, 17)
    ]
    return np.concatenate(parts)


def text(values: Float, mark: str, ends: str) -> str:
    return ends[0] + mark.join(f"{x:.6f}" for x in values) + ends[1]


def dicts(value: Callable[[Float], object]) -> str:
    rows = ({"t": float(t[k]), "q": value(q[k]), "tau": value(tau[k]), "mode": None} for k in range(T))
    return "\n".join(map(repr, rows)) + "\n"


def by_name(k: int) -> dict[str, float]:
    names = ["t", *(f"q{j}" for j in range(3)), *(f"tau{j}" for j in range(3))]
    return dict(zip(names, ALL[k].tolist(), strict=True))


@pytest.mark.parametrize("mark", [",", " ", ";", ", "])
@pytest.mark.parametrize(("inner", "ends"), [(", ", "[]"), (" ", "[]"), (" ", "()")])
def test_lists_that_no_quotes_hold_are_columns(mark: str, inner: str, ends: str, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    rows = [mark.join([f"{t[k]}", text(q[k], inner, ends), text(tau[k], inner, ends)]) for k in range(T)]
    path.write_text("\n".join([mark.join(["t", "q", "tau"]), *rows, ""]))
    names = ("t", *(f"{name}[{j}]" for name in ("q", "tau") for j in range(3)))
    np.testing.assert_array_equal(read(open_table(path), names), ALL)
    path.write_text("\n".join([*rows, ""]))  # without names they are columns by their places
    np.testing.assert_array_equal(read(open_table(path), tuple(f"column[{k}]" for k in range(7))), ALL)


def test_states_that_yarp_dumps(tmp_path: Path) -> None:
    path = tmp_path / "data.log"
    rows = [f"{k} {t[k]} {text(q[k], ' ', '()')} [ok] {text(tau[k], ' ', '()')} [ok]" for k in range(T)]
    path.write_text("\n".join([*rows, ""]))
    names = tuple(f"column[{k}]" for k in (1, 2, 3, 4, 6, 7, 8))
    np.testing.assert_array_equal(read(open_table(path), names), ALL)


def test_numbers_in_brackets_behind_names_are_no_lists(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    names = ("t", *(f"{name}({j})" for name in ("q", "tau") for j in range(1, 4)))
    path.write_text("\n".join([" ".join(names), *(" ".join(map(str, row)) for row in ALL.tolist())]))
    np.testing.assert_array_equal(read(open_table(path), names), ALL)


@pytest.mark.parametrize("wrapped", ["np.float64({})", "np.float32({})", "numpy.float64({})"])
def test_numbers_as_numpy_prints_them_in_lists(wrapped: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"

    def cell(values: Float) -> str:
        return '"[' + ", ".join(wrapped.format(x) for x in values) + ']"'

    path.write_text("\n".join(["t,q,tau", *(f"{t[k]},{cell(q[k])},{cell(tau[k])}" for k in range(T))]))
    names = ("t", *(f"{name}[{j}]" for name in ("q", "tau") for j in range(3)))
    np.testing.assert_array_equal(read(open_table(path), names), ALL)


@pytest.mark.parametrize("value", [np.ndarray.tolist, np.array, tuple, list], ids=str)
def test_dicts_as_python_prints_them(value: Callable[[Float], object], tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(dicts(value))
    names = ("t", *(f"{name}[{j}]" for name in ("q", "tau") for j in range(3)))
    np.testing.assert_array_equal(read(open_table(path), names), ALL)


@pytest.mark.parametrize(("given", "mark"), [(":", ","), ("=", " "), (": ", "\t"), (" = ", ", ")])
def test_lines_that_name_their_values(given: str, mark: str, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    rows = [mark.join(f"{name}{given}{value}" for name, value in by_name(k).items()) for k in range(T)]
    path.write_text("\n".join(["booting...", "# an arm", *rows, ""]))
    table = open_table(path)
    np.testing.assert_array_equal(read(table, tuple(by_name(0))), ALL)
    assert getattr(table, "left_out", ()) == ("1 line(s) in another form",)


def test_units_and_lists_of_named_values(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    rows = [f"Time: {t[k]} s | Pos: {text(q[k], ' ', '[]')}  Torque 1: {tau[k, 0]} Nm" for k in range(T)]
    path.write_text("\n".join([*rows, ""]))
    names = ("Time [s]", "Pos[0]", "Pos[1]", "Pos[2]", "Torque 1 [Nm]")
    np.testing.assert_array_equal(read(open_table(path), names), ALL[:, :5])


@pytest.mark.parametrize("line", ["12:30:01,0.1,0.2", "q: 0.1", "a:1:2,b:3", "x 1 y 2"])
def test_other_lines_name_no_values(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(f"{line}\n" * 9)
    assert isinstance(getattr(open_table(path), "_table", open_table(path)), CsvTable)


def test_a_row_for_each_signal(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [f"{t[k]},{name},{value}" for k in range(T) for name, value in list(by_name(k).items())[1:]]
    path.write_text("\n".join(["timestamp,variable,value", *rows]))
    names = ("timestamp", *list(by_name(0))[1:])
    np.testing.assert_array_equal(read(open_table(path), names), ALL)


def test_words_below_a_table_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [",".join(map(str, row)) for row in ALL.tolist()]
    path.write_text(
        "\n".join([",".join(by_name(0)), *rows, "", "Total samples: 60", "Mean loop time: 0.01 s", ""])
    )
    table = open_table(path)
    np.testing.assert_array_equal(read(table, tuple(by_name(0))), ALL)
    (remark,) = (one for one in getattr(table, "remarks", ()) if one.identifier == "last-line")
    assert "the last 2 lines, from 'Total samples: 60' on" in remark.text


def test_a_line_for_each_signal(tmp_path: Path) -> None:
    long = np.tile(ALL, (10, 1))
    long[:, 0] = np.arange(len(long)) / 100
    path = tmp_path / "log.txt"
    np.savetxt(path, long.T, delimiter=",")
    np.testing.assert_allclose(read(open_table(path), tuple(f"column[{k}]" for k in range(7))), long)
    lines = [",".join([name, *map(str, row)]) for name, row in zip(by_name(0), long.T.tolist(), strict=True)]
    path.write_text("\n".join(lines))
    np.testing.assert_array_equal(read(open_table(path), tuple(by_name(0))), long)
    np.savetxt(path, long, delimiter=",")  # a row for each moment stays one
    np.testing.assert_allclose(read(open_table(path), tuple(f"column[{k}]" for k in range(7))), long)


@pytest.mark.parametrize(
    "prefix",
    [
        "[INFO] [{}]: ",
        "[INFO] [{}] [arm_node]: ",
        "[arm-1] [INFO] [{}] [arm]: ",
        "[ INFO] [1700000000.5, {}]: ",
        "[{}] ",
    ],
)
@pytest.mark.parametrize("way", [" ".join, ", ".join])
def test_lines_of_loggers(prefix: str, way: Callable[[list[str]], str], tmp_path: Path) -> None:
    path = tmp_path / "arm.log"
    path.write_text(
        "\n".join(
            ["[INFO] ready", *(prefix.format(t[k]) + way(list(map(str, ALL[k, 1:]))) for k in range(T)), ""]
        )
    )
    table = open_table(path)
    np.testing.assert_array_equal(read(table, tuple(f"column[{k}]" for k in range(7))), ALL)
    assert getattr(table, "left_out", ()) == ("1 line(s) in another form",)
    rows = [
        f"{prefix.format(t[k])}q: {text(q[k], ', ', '[]')[1:-1]} tau: {text(tau[k], ', ', '[]')}"
        for k in range(T)
    ]
    path.write_text("\n".join([*rows, ""]))
    names = ("stamp [s]", *(f"{name}[{j}]" for name in ("q", "tau") for j in range(3)))
    np.testing.assert_array_equal(read(open_table(path), names), ALL)


def test_dates_of_loggers_are_seconds(tmp_path: Path) -> None:
    path = tmp_path / "arm.log"
    rows = [
        f"2024-05-04 12:33:{1 + k // 100:02d},{10 * (k % 100):03d} INFO arm {q[k, 0]} {tau[k, 0]}"
        for k in range(T)
    ]
    path.write_text("\n".join([*rows, ""]))
    stamps = read(open_table(path), tuple(f"column[{k}]" for k in range(3)))
    np.testing.assert_allclose(stamps[:, 0] - stamps[0, 0], 0.01 * np.arange(T), atol=1e-6)
    np.testing.assert_array_equal(stamps[:, 1:], np.stack([q[:, 0], tau[:, 0]], axis=1))


@pytest.mark.parametrize("ending", ["txt", "csv"])
def test_times_of_day_of_serial_monitors_are_stamps(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"arm.{ending}"

    def stamp(k: int) -> str:
        return f"12:33:{1 + k // 100:02d}.{10 * (k % 100):03d} -> "

    path.write_text("\n".join([*(f"{stamp(k)}q:{q[k, 0]} tau:{tau[k, 0]}" for k in range(T)), ""]))
    found = read(open_table(path), ("stamp [s]", "q", "tau"))
    np.testing.assert_allclose(found[:, 0] - found[0, 0], 0.01 * np.arange(T), atol=1e-6)
    np.testing.assert_array_equal(found[:, 1:], np.stack([q[:, 0], tau[:, 0]], axis=1))
    path.write_text("\n".join([*(f"{stamp(k)}{q[k, 0]},{tau[k, 0]}" for k in range(T)), ""]))
    numbers = read(open_table(path), ("column[0]", "column[1]", "column[2]"))
    np.testing.assert_allclose(numbers, found)


def test_names_above_a_table_that_begins_like_a_logger_stay_its_names(tmp_path: Path) -> None:
    path = tmp_path / "arm.txt"
    path.write_text("\n".join(["t a b", *(f"[{t[k]}] {q[k, 0]} {tau[k, 0]}" for k in range(T)), ""]))
    np.testing.assert_array_equal(read(open_table(path), ("a", "b")), np.stack([q[:, 0], tau[:, 0]], axis=1))


@pytest.mark.parametrize(
    ("mark", "quoted", "european"),
    [(",", True, False), (";", False, False), (";", False, True), ("\t", True, True)],
)
def test_thousands_that_are_apart(mark: str, quoted: bool, european: bool, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    values = np.stack([t, 1234.5 * np.sin(t), 1e6 * np.cos(t)], axis=1)

    def cell(value: float) -> str:
        written = f"{value:,.3f}"
        written = written.translate(str.maketrans(",.", ".,")) if european else written
        return f'"{written}"' if quoted else written

    path.write_text(
        "\n".join([mark.join(["t", "a", "b"]), *(mark.join(map(cell, row)) for row in values), ""])
    )
    np.testing.assert_allclose(read(open_table(path), ("t", "a", "b")), values, atol=6e-4)


HEAD = "t,q0,q1,q2,tau0,tau1,tau2"


def table_of(path: Path, *lines: str, encoding: str = "utf-8") -> Float:
    path.write_bytes("\n".join([*lines, ""]).encode(encoding))
    return read(open_table(path), tuple(HEAD.split(",")))


def rows_of(values: Float, mark: str = ",") -> list[str]:
    return [mark.join(map(str, row)) for row in values.tolist()]


@pytest.mark.parametrize("minus", ["\u2212", "\u2013", "\uff0d"])
def test_minus_signs_of_typesetters(minus: str, tmp_path: Path) -> None:
    rows = [row.replace("-", minus) for row in rows_of(ALL)]
    np.testing.assert_array_equal(table_of(tmp_path / "log.csv", HEAD, *rows), ALL)
    comma = [row.replace(".", ",").replace("-", minus) for row in rows_of(ALL, ";")]
    found = table_of(tmp_path / "log.csv", HEAD.replace(",", ";"), *comma)
    np.testing.assert_array_equal(found, ALL)
    powers = [",".join(f"{x:.12e}".replace("-", minus) for x in row) for row in ALL]
    np.testing.assert_array_equal(table_of(tmp_path / "log.csv", HEAD, *powers), ALL)


@pytest.mark.parametrize("blank", ["\u00a0", "\u2007", "\u2009", "\u202f"])
def test_blanks_that_do_not_break_part_thousands_and_surround_cells(blank: str, tmp_path: Path) -> None:
    large = np.round(ALL * 12345.0, 3)
    rows = [";".join(f"{blank}{x:,.3f}".replace(",", blank) for x in row) for row in large]
    np.testing.assert_array_equal(table_of(tmp_path / "log.csv", HEAD.replace(",", ";"), *rows), large)


@pytest.mark.parametrize(
    "again",
    ["\ufeff" + HEAD, HEAD.replace(",", ", "), HEAD + ",", ",".join(f'"{one}"' for one in HEAD.split(","))],
    ids=["mark", "blanks", "separator", "quotes"],
)
def test_names_that_a_restarted_recorder_writes_again(again: str, tmp_path: Path) -> None:
    rows = rows_of(ALL)
    found = table_of(tmp_path / "log.csv", "\ufeff" + HEAD, *rows[: T // 2], again, *rows[T // 2 :])
    np.testing.assert_array_equal(found, ALL)


def test_other_names_between_rows_are_said_to_be_names(tmp_path: Path) -> None:
    rows, other = rows_of(ALL), ",".join(reversed(HEAD.split(",")))
    with pytest.raises(InputError, match="another header line") as error:
        table_of(tmp_path / "log.csv", HEAD, *rows[:9], "", "# begins again", other, *rows[9:])
    assert "split the file above that line" in str(error.value)


@pytest.mark.parametrize("cell", ["---", "***", "#NV", "#DIV/0!", "#N/A"])
def test_signs_of_missing_numbers(cell: str, tmp_path: Path) -> None:
    values = ALL.astype(object)
    values[5, 2] = cell
    found = table_of(tmp_path / "log.csv", HEAD, *rows_of(values))
    assert np.isnan(found[5, 2])
    assert np.isfinite(np.delete(found.ravel(), 5 * 7 + 2)).all()


def test_one_cell_with_a_comma_among_points_is_no_reason_to_read_commas(tmp_path: Path) -> None:
    values = ALL.astype(object)
    values[5, 2] = '"0,5"'
    with pytest.raises(InputError) as error:
        table_of(tmp_path / "log.csv", HEAD, *rows_of(values))
    assert "decimal" not in str(error.value)


def test_lists_of_one_value_each_are_that_value(tmp_path: Path) -> None:
    path = tmp_path / "data.log"
    path.write_text(
        "\n".join([*(f"{k} {t[k]} " + " ".join(f"({x})" for x in ALL[k, 1:]) for k in range(T)), ""])
    )
    found = read(open_table(path), tuple(f"column[{k}]" for k in range(1, 8)))
    np.testing.assert_array_equal(found, ALL)
    rows = [",".join([str(t[k]), *(f"[{x}]" for x in ALL[k, 1:])]) for k in range(T)]
    np.testing.assert_array_equal(table_of(tmp_path / "log.csv", HEAD, *rows), ALL)


def test_round_brackets_of_spreadsheets_are_no_lists(tmp_path: Path) -> None:
    # There they are negative numbers, which nothing here says.
    rows = [",".join(f"({-x:.6f})" if x < 0 else f"{x:.6f}" for x in row) for row in ALL]
    with pytest.raises(InputError, match="list-cell"):
        table_of(tmp_path / "log.csv", HEAD, *rows)


def test_messages_in_xml(tmp_path: Path) -> None:
    def message(k: int) -> str:
        axes = (" ".join(f'A{j + 1}="{x}"' for j, x in enumerate(one[k])) for one in (q, tau))
        return '<Rob TYPE="KUKA"><AIPos {} /><MACur {}/><IPOC>{}</IPOC></Rob>'.format(*axes, 4 * k)

    path = tmp_path / "rsi.xml"
    names = ("IPOC", *(f"{one}.A{j + 1}" for one in ("AIPos", "MACur") for j in range(3)))
    for mark in ("\n", ""):
        path.write_text(mark.join(map(message, range(T))))
        found = read(open_table(path), names)
        np.testing.assert_array_equal(found[:, 1:], ALL[:, 1:])
        np.testing.assert_array_equal(found[:, 0], 4.0 * np.arange(T))


def test_logs_of_vehicles_are_said_to_be_such(tmp_path: Path) -> None:
    path = tmp_path / "flight.ulg"
    path.write_bytes(b"ULog\x01\x12\x35\x01" + bytes(64))
    with pytest.raises(InputError, match="PX4 flight log"):
        open_table(path)


def named(rows: list[str], names: str = "t,q0,q1,q2,tau0,tau1,tau2") -> str:
    return "\n".join([names, *rows, ""])


@pytest.mark.parametrize("kind", ["np.float64", "np.float32", "numpy.float64"])
def test_numbers_as_numpy_prints_them_are_numbers(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(named([",".join(f"{kind}({x!r})" for x in row) for row in ALL.tolist()]))
    np.testing.assert_array_equal(read(open_table(path), tuple(by_name(0))), ALL)


def test_columns_of_one_name_with_the_same_values_are_one(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    twice = np.column_stack([ALL, q])
    path.write_text(
        named([",".join(map(repr, row)) for row in twice.tolist()], "t,q0,q1,q2,tau0,tau1,tau2,q0,q1,q2")
    )
    table = open_table(path)
    assert table.column_names == tuple(by_name(0))
    np.testing.assert_array_equal(read(table, tuple(by_name(0))), ALL)


def test_columns_of_one_name_that_differ_are_refused_where_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    other = np.column_stack([ALL, 2 * tau])
    names = "t,q0,q1,q2,tau0,tau1,tau2,tau0,tau1,tau2"
    path.write_text(named([",".join(map(repr, row)) for row in other.tolist()], names))
    found = contents(path)
    assert [one.name for one in found.streams[0].columns] == ["t", "q0", "q1", "q2"]
    assert [one.identifier for one in found.remarks] == ["columns-of-one-name"]
    np.testing.assert_array_equal(read(open_table(path), ("q0", "q1", "q2")), q)
    with pytest.raises(InputError, match=r"log\.csv:1.*duplicate-column|duplicate-column.*log\.csv:1"):
        read(open_table(path), ("q0", "tau1"))


def test_columns_of_one_name_that_differ_further_down_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [f"{k},0.5,{k},{0.5 if k < 900 else 0}" for k in range(1000)]
    path.write_text(named(rows, "t,q1,q2,q1"))
    with pytest.raises(InputError, match="duplicate-column"):
        read(open_table(path), ("t", "q1"))


def test_a_header_of_more_names_than_all_rows_have_cells_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(named([",".join(map(repr, row[:5])) for row in ALL.tolist()]))
    with pytest.raises(InputError, match=r"7 names in the header but 5 cells in every row"):
        read(open_table(path), tuple(by_name(0)))
