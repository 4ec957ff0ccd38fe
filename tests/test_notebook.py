"""The parameters cell: what it declares, and which values fit."""

import datetime
import json
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairnb
from fairnb import paths
from fairnb.errors import ParameterError
from fairnb.notebook import Parameter, read_cell

FLAG = Parameter("flag", "bool", default=False, help="a switch")
COUNT = Parameter("count", "int", 3, "how many")
SHARE = Parameter("share", "float", 0.5, "a share")
WORD = Parameter("word", "str", "x", "")


@pytest.mark.parametrize(
    ("parameter", "given", "value"),
    [
        (FLAG, "true", True),
        (FLAG, "True", True),
        (FLAG, "false", False),
        (FLAG, "FALSE", False),
        (FLAG, True, True),
        (FLAG, np.bool_(False), False),
        (COUNT, "10", 10),
        (COUNT, "0", 0),
        (COUNT, "-7", -7),
        (COUNT, 10, 10),
        (COUNT, np.int64(10), 10),
        (COUNT, np.uint8(10), 10),
        (COUNT, np.array(10), 10),
        (COUNT, "9223372036854775807", 2**63 - 1),
        (SHARE, "0.25", 0.25),
        (SHARE, "-0.25", -0.25),
        (SHARE, "1", 1.0),
        (SHARE, "1e-05", 1e-05),
        (SHARE, "1e+16", 1e16),
        (SHARE, "2.5E3", 2500.0),
        (SHARE, 1, 1.0),
        (SHARE, np.float64(0.25), 0.25),
        (SHARE, np.float32(0.25), 0.25),
        (SHARE, np.int64(1), 1.0),
        (WORD, "010", "010"),
        (WORD, "false", "false"),
        (WORD, "null", "null"),
        (WORD, "", ""),
        (WORD, "NO", "NO"),
        (WORD, "Côte d'Ivoire / 椎名", "Côte d'Ivoire / 椎名"),
        (WORD, Path("a folder") / "b", str(Path("a folder") / "b")),
        (WORD, np.str_("x"), "x"),
    ],
)
def test_a_value_that_fits_becomes_a_plain_value_of_the_declared_type(parameter, given, value):
    found = parameter.value(given)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("parameter", "given"),
    [
        *(
            (FLAG, value)
            for value in ("no", "yes", "0", "1", "", "None", "null", 0, 1, None, np.int64(1), Path("true"))
        ),
        *(
            (COUNT, value)
            for value in ("010", "1_000", "+5", "1.0", "1e3", "", " 1", "1 ", "0x10", "True", "１０", "--1")
        ),
        *(
            (COUNT, value)
            for value in (True, 1.0, np.float64(1), None, [1], (1,), {1}, Decimal(1), np.array([1]), 1 + 0j)
        ),
        *((COUNT, value) for value in (np.array([1, 2]), np.bool_(True), Path("3"), b"3", 2**63, -(2**63), 10**30)),
        *((COUNT, value) for value in ("9223372036854775808", "9" * 5000, np.timedelta64(3, "D"), np.void(b"3"))),
        *(
            (SHARE, value)
            for value in ("01.5", ".5", "5.", "1,5", "1_0.0", "nan", "inf", "-inf", "1e999", "half", "", "1e")
        ),
        *(
            (SHARE, value)
            for value in (True, None, float("nan"), float("inf"), np.float64("nan"), 10**400, Decimal("0.5"))
        ),
        *((SHARE, value) for value in ("٠.٥", np.longdouble(0.5), np.complex128(1), Path("0.5"), (0.5,))),
        *((WORD, value) for value in (1, 1.5, True, None, b"x", ["x"], ("x",), datetime.date(2024, 5, 2), np.int64(1))),
        (WORD, np.datetime64("2024-05-02")),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_name_value_and_expectation(parameter, given):
    with pytest.raises(ParameterError) as error:
        parameter.value(given)
    message = str(error.value)
    assert message.startswith(f"{parameter.name} = ")
    expected = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a text"}[parameter.kind]
    assert f": expected {expected}" in message
    assert message.endswith(f"({parameter.help})" if parameter.help else "a text")
    assert len(message) < 250


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_text_and_number_are_one_whole_number(number):
    assert COUNT.value(str(number)) == COUNT.value(number) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_text_and_number_are_one_number(number):
    assert SHARE.value(str(number)) == SHARE.value(np.float64(number)) == SHARE.value(number) == number


@given(st.text())
def test_a_text_is_never_changed(text):
    assert WORD.value(text) == text


@given(st.text())
def test_any_text_either_fits_or_is_refused_in_one_way(text):
    for parameter, kind in ((FLAG, bool), (COUNT, int), (SHARE, float)):
        with suppress(ParameterError):
            assert type(parameter.value(text)) is kind


# --- Reading the cell ---


@pytest.fixture
def write(tmp_path):
    def write(*sources: str, tags=("parameters",), kind: str = "code") -> Path:
        cells = [
            {"cell_type": kind, "source": source.splitlines(keepends=True), "metadata": {"tags": list(tags)}}
            for source in sources
        ]
        cells.append({"cell_type": "code", "source": "not_a_parameter: int = 1", "metadata": {}})
        file = tmp_path / "a notebook.ipynb"
        file.write_text(json.dumps({"cells": cells}), "utf-8")
        return file

    return write


def test_a_cell_is_read_with_types_defaults_and_comments(write):
    found = read_cell(
        write(
            "# a heading\n"
            "flag: bool = True  # a switch\n"
            "count: int = -1\n"
            "share: float = 1  ## with a = and a # in it\n"
            'word: str = "a=b # not a comment"  # a word\n'
        )
    )
    assert list(found.values()) == [
        Parameter("flag", "bool", default=True, help="a switch"),
        Parameter("count", "int", -1, ""),
        Parameter("share", "float", 1.0, "with a = and a # in it"),
        Parameter("word", "str", "a=b # not a comment", "a word"),
    ]
    assert type(found["share"].default) is float
    assert list(found) == ["flag", "count", "share", "word"]


def test_the_source_may_be_one_text(tmp_path):
    file = tmp_path / "x.ipynb"
    cell = {"cell_type": "code", "source": "k: int = 3  # size", "metadata": {"tags": ["x", "parameters"]}}
    file.write_text(json.dumps({"cells": [cell]}))
    assert read_cell(file) == {"k": Parameter("k", "int", 3, "size")}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("k = 3", "line 1: expected `name: type = value`, type one of bool, int, float, str"),
        ("k: int = 3\nl: list = []", "line 2: expected `name: type = value`"),
        ("k: int", "line 1: expected `name"),
        ("k: int | None = 3", "line 1: expected `name"),
        ("import os", "line 1: expected `name"),
        ("a.k: int = 3", "line 1: expected `name"),
        ("k: int = 1 + 1", "line 1: the default of k is not a whole number"),
        ("k: int = f()", "line 1: the default of k is not a whole number"),
        ("k: int = '3'", "line 1: the default of k is not a whole number"),
        ("k: int = True", "line 1: the default of k is not a whole number"),
        ("k: bool = 1", "line 1: the default of k is not true or false"),
        ("k: float = '0.5'", "line 1: the default of k is not a number"),
        ("k: float = 1e999", "line 1: the default of k is not a number"),
        ("k: str = None", "line 1: the default of k is not a text"),
        ("k: int = 3\nk: int = 4", "line 2: k stands there twice"),
        ("k: int = 3\nl: int = = 4", "line 2: not Python"),
        ("%matplotlib inline", "line 1: not Python"),
        ("k: str = 'a", "line 1: not Python"),
    ],
)
def test_a_line_that_does_not_declare_is_told_with_notebook_and_line(write, source, words):
    with pytest.raises(ParameterError, match=r"a notebook\.ipynb, parameters cell, line \d: ") as error:
        read_cell(write(source))
    assert words in str(error.value)


def test_no_cell_two_cells_or_a_cell_of_prose_is_told(write):
    for file in (write("k: int = 1", tags=["parameter"]), write("k: int = 1", kind="markdown")):
        with pytest.raises(ParameterError, match="0 code cells tagged 'parameters'; expected exactly one"):
            read_cell(file)
    with pytest.raises(ParameterError, match="2 code cells tagged"):
        read_cell(write("k: int = 1", "l: int = 2"))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{}", b'{"cells": null}', b'{"cells": [1]}', b"\xff"])
def test_a_file_that_is_no_notebook_is_told(tmp_path, content):
    file = tmp_path / "x.ipynb"
    file.write_bytes(content)
    with pytest.raises(ParameterError, match=r"x\.ipynb: not a notebook; `git checkout` restores it$"):
        read_cell(file)


def test_a_notebook_that_is_not_there_or_a_folder_is_told(tmp_path):
    with pytest.raises(ParameterError, match=r"none\.ipynb: no such notebook; `fairnb list` names them$"):
        read_cell(tmp_path / "none.ipynb")
    with pytest.raises(ParameterError, match="not a notebook"):
        read_cell(tmp_path)
    with pytest.raises(ParameterError, match=r"^notebooks/none"):
        read_cell(paths.notebooks() / "none.ipynb")


def test_about_names_version_and_interpreter_but_no_home():
    assert fairnb.about().startswith(f"fairnb {fairnb.__version__}, Python 3.")
