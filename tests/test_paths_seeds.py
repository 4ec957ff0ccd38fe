"""The root of the project from anywhere, files never half written, and one stream for one name."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_project import make_project
from hypothesis import given
from hypothesis import strategies as st

from fairnb import paths, seeds
from fairnb.errors import FairnbError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    monkeypatch.delenv(paths.ROOT_VARIABLE, raising=False)


# --- The root ---


@pytest.mark.parametrize("here", ["/", "tmp", "notebooks"])
def test_the_root_is_the_checkout_of_this_package_from_anywhere(monkeypatch, tmp_path, here):
    monkeypatch.chdir({"/": "/", "tmp": tmp_path, "notebooks": ROOT / "notebooks"}[here])
    assert paths.root() == ROOT


def test_the_variable_decides(monkeypatch, tmp_path):
    other = make_project(tmp_path / "other project")
    monkeypatch.setenv(paths.ROOT_VARIABLE, str(other))
    assert paths.root() == other
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(paths.ROOT_VARIABLE, "other project")
    assert paths.root() == other
    monkeypatch.setenv(paths.ROOT_VARIABLE, "")
    assert paths.root() == ROOT


@pytest.mark.parametrize("missing", ["notebooks", "data", "figures", "pyproject.toml", "name"])
def test_a_variable_that_names_no_checkout_is_an_error_and_never_a_fallback(monkeypatch, tmp_path, missing):
    other = make_project(tmp_path / "other")
    if missing == "name":
        (other / "pyproject.toml").write_text('name = "another"')
    else:
        (other / missing).rename(other / "renamed")
    monkeypatch.setenv(paths.ROOT_VARIABLE, str(other))
    with pytest.raises(FairnbError, match=r"FAIRNB_ROOT=.*not a fairnb checkout .expected notebooks, data, figures"):
        paths.root()


def test_an_installed_package_looks_above_the_folder_it_is_run_in(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "site-packages" / "fairnb" / "paths.py"))
    other = make_project(tmp_path / "other")
    (other / "notebooks" / "deep" / "er").mkdir(parents=True)
    for folder in (other, other / "notebooks", other / "notebooks" / "deep" / "er"):
        monkeypatch.chdir(folder)
        assert paths.root() == other
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        FairnbError, match=f"no fairnb checkout found above .*clone the repository .* {paths.ROOT_VARIABLE}"
    ):
        paths.root()


def test_a_folder_that_is_gone_does_not_matter(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os; os.rmdir(os.getcwd()); from fairnb import paths; print(paths.root())"
    done = subprocess.run([sys.executable, "-c", code], cwd=gone, capture_output=True, encoding="utf-8", check=False)
    assert done.stdout == f"{ROOT}\n", done.stderr


def test_folders_lie_below_the_root_and_shown_paths_are_relative_to_it(tmp_path):
    found = {
        *(paths.data(), paths.published(), paths.released(), paths.external()),
        *(paths.figures(), paths.notebooks(), paths.runs()),
    }
    assert {paths.shown(folder) for folder in found} == {
        *("data", "data/published", "data/released", "data/external", "figures", "notebooks", "runs")
    }
    assert paths.shown(ROOT / "notebooks" / ".." / "README.md") == "README.md"
    assert paths.shown(ROOT) == "."
    assert paths.shown(tmp_path) == str(tmp_path)
    assert paths.shown(ROOT.with_name(f"{ROOT.name}-other")) == str(ROOT.with_name(f"{ROOT.name}-other"))


# --- Files ---


def test_a_text_is_written_as_utf8_with_unix_line_ends_into_a_new_folder(tmp_path):
    file = tmp_path / "a" / "b c" / "ü.csv"
    text = "≤,椎名,🎵\n\ttab\n"
    assert paths.write_text(file, text) is True
    assert file.read_bytes() == text.encode("utf-8")
    assert [entry.name for entry in file.parent.iterdir()] == ["ü.csv"]


def test_an_equal_file_is_left_and_another_is_replaced(tmp_path):
    file = tmp_path / "x"
    file.write_bytes(b"old")
    os.utime(file, (1, 1))
    assert paths.write_bytes(file, b"old") is False
    assert file.stat().st_mtime == 1
    assert paths.write_bytes(file, b"new") is True
    assert file.read_bytes() == b"new"
    assert file.stat().st_mtime > 1


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_stops_in_the_middle_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    file = tmp_path / "x"
    file.write_bytes(b"old")
    write = Path.write_bytes

    def stop(self, content):
        write(self, content[:2])
        raise error

    monkeypatch.setattr(Path, "write_bytes", stop)
    expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else FairnbError
    with pytest.raises(expected) as caught:
        paths.write_bytes(file, b"new content")
    monkeypatch.undo()
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"x": b"old"}
    if expected is FairnbError:
        assert str(caught.value) == (
            f"{file}: cannot be written (No space left on device); make the folder writable or name another one"
        )


def test_what_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "file" / "x.csv", tmp_path / "folder"):
        with pytest.raises(FairnbError, match=rf"^{target}: cannot be written \("):
            paths.write_text(target, "text")
    assert (tmp_path / "file").read_text() == "x"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]


# --- Seeds ---

PARTS = st.lists(st.one_of(st.text(), st.integers()), min_size=1, max_size=4)


def draw(*name, **options) -> list[int]:
    return seeds.generator(*name, **options).integers(0, 2**63, 4).tolist()


GOLDEN = [
    [6556274234234574336, 2937818251395508711, 3768488925044257400, 7940360271960437715],
    [6642070786595168599, 2215273844720600151, 4368315392485611159, 3435480889916381400],
    [7468391362342481912, 247645362463483533, 1285824841472338122, 3682586056003823534],
]


def test_the_streams_are_these_on_every_machine():
    assert draw("bootstrap", "gender", "Male") == GOLDEN[0]
    assert draw("shuffles", 80) == GOLDEN[1]
    assert draw("bootstrap", "gender", "Male", root=7) == GOLDEN[2]


@given(PARTS, PARTS)
def test_equal_names_share_a_stream_and_others_do_not(one, other):
    assert draw(*one) == draw(*one)
    assert (draw(*one) == draw(*other)) is (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b"), ("ab",)),
        (("a", "b"), ("b", "a")),
        ((1,), ("1",)),
        (("a",), ("a", "")),
        (("a", 1), ("a1",)),
        ((1, 2), (12,)),
    ],
)
def test_names_that_read_alike_are_not_alike(one, other):
    assert draw(*one) != draw(*other)


def test_the_order_of_work_does_not_matter():
    first, second = seeds.generator("a"), seeds.generator("b")
    mixed = [first.random(), second.random(), first.random()]
    alone = seeds.generator("a")
    assert mixed[1] == seeds.generator("b").random()
    assert [mixed[0], mixed[2]] == [alone.random(), alone.random()]


def test_another_root_is_another_stream():
    assert draw("a", root=1) != draw("a", root=2)
    assert draw("a") == draw("a", root=seeds.ROOT_SEED)


def test_a_number_of_numpy_is_the_number_it_is():
    assert draw("a", np.int64(3)) == draw("a", 3)
    assert draw("a", np.uint8(3), root=np.int64(5)) == draw("a", 3, root=5)
    assert draw(np.str_("a")) == draw("a")


def test_a_generator_without_a_name_or_with_an_odd_one_is_refused():
    with pytest.raises(ValueError, match="needs a name"):
        seeds.generator()
    for part in (1.0, None, ("a",), np.float64(1)):
        with pytest.raises(TypeError):
            seeds.generator("a", part)
