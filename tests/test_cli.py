"""The command line: help, one line per expected error, and what an interruption leaves."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from fake_project import (
    NAMES,
    alive,
    benefits,
    cli_process,
    edit,
    make_project,
    manifest,
    plan_file,
    put,
    snapshot,
    writing,
)

from fairnb import __version__, cli, pipeline
from fairnb.cli import join_pairs
from fairnb.settings import load_plan

START, NSD, INTRINSIC, FIGURES = NAMES
COMMANDS = ["reproduce", "run", "list", "audit", "doctor", "template", "data"]
COMMANDS += [f"data {name}" for name in ("list", "get", "check", "make-sample", "import-released")]


@pytest.fixture
def root(tmp_path, monkeypatch):
    root = make_project(tmp_path / "a project")
    monkeypatch.setenv("FAIRNB_ROOT", str(root))
    monkeypatch.setattr(pipeline, "_start", lambda *_: pytest.fail("a kernel was started"))
    return root


@pytest.fixture
def call(capsys, monkeypatch):
    """Run a command in this process: its exit status, what it said, and what it complained of."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["fairnb", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return run


def one_line(status: int, out: str, err: str) -> str:
    """The complaint of a command that must fail with one line and no traceback."""
    assert status == 2
    assert err.startswith("fairnb: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err + out
    return err.removeprefix("fairnb: ").rstrip("\n")


# --- Help ---


def test_every_command_has_a_help_that_says_what_it_does(call):
    status, out, err = call("--help")
    assert (status, err) == (0, "")
    for command in COMMANDS[:6]:
        assert re.search(rf"^  {command} +[A-Z][a-z]", out, re.MULTILINE), command
    assert "..." not in out.split("Options:")[1] + call("data", "--help")[1].split("Options:")[1]
    for command in COMMANDS:
        status, out, err = call(*command.split(), "--help")
        assert (status, err) == (0, "")
        assert out.startswith(f"Usage: fairnb {command} ")
        assert len(out.splitlines()[2].strip()) > 20
        assert max(len(line) for line in out.splitlines()) <= 80


def test_run_help_shows_how_a_parameter_is_set(call):
    _, out, _ = call("run", "--help")
    assert "-p" in out
    assert "NAME VALUE" in out
    assert "--force" in out


def test_version_and_no_arguments(call):
    assert call("--version") == (0, f"fairnb {__version__}\n", "")
    status, out, err = call()
    assert status == 2
    assert "Usage: fairnb" in out + err


# --- Parameters ---


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        (["run", "x", "-p", "a", "1"], ["run", "x", "-p", "a=1"]),
        (["run", "-p", "a", "1", "x"], ["run", "-p", "a=1", "x"]),
        (["run", "x", "-p", "a=1"], ["run", "x", "-p", "a=1"]),
        (["run", "-p", "a=1", "x", "--force"], ["run", "-p", "a=1", "x", "--force"]),
        (["run", "x", "-p", "a", "-1"], ["run", "x", "-p", "a=-1"]),
        (["run", "x", "-p", "a", "b=c"], ["run", "x", "-p", "a=b=c"]),
        (["run", "x", "--parameter", "a", "two words"], ["run", "x", "--parameter", "a=two words"]),
        (["run", "x", "-p", "a", ""], ["run", "x", "-p", "a="]),
        (["run", "x", "-p", "a", "1", "-p", "b", "2"], ["run", "x", "-p", "a=1", "-p", "b=2"]),
        (["run", "x", "-p", "a"], ["run", "x", "-p", "a"]),
        (["run", "x", "-p"], ["run", "x", "-p"]),
        (["run", "x", "--force"], ["run", "x", "--force"]),
        ([], []),
    ],
)
def test_pairs_as_papermill_takes_them_are_joined(given, joined):
    before = list(given)
    assert join_pairs(given) == joined
    assert given == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["-p", "protocl", "paper"],
            "protocl: no notebook of experiment released has this parameter; did you mean protocol?",
        ),
        (["-p", "seed", "1", "-p", "seed", "2"], "-p seed: given twice; expected once"),
        (["-p", "seed"], "-p seed: expected a name and a value, as in -p protocol paper"),
        (["-p", "=7"], "-p =7: expected a name and a value"),
        (["-p", "seed", ""], "seed = '': expected a whole number"),
        (["-p", "seed", "seven"], "seed = 'seven': expected a whole number such as 1000 (root of all random numbers)"),
        (["-p", "seed", "010"], "seed = '010': expected a whole number"),
        (["-p", "seed", "-1"], "seed = -1: input should be greater than or equal to 0"),
        (["-p", "dataset", "ml10m"], "dataset = 'ml10m': input should be 'lastfm1k', 'ml1m', 'ml100k'"),
        (["-p", "dataset", "ml100k"], "dataset = 'ml100k': unknown; expected one of lastfm1k, ml1m"),
        (["-p", "protocol", "paper"], "protocol = 'paper' cannot be applied to dataset = 'lastfm1k'"),
        (["-p", "dataset", "ml1m"], "ml1m_top3.csv: no such file"),
        (["-p", "released_folder", "nowhere"], "released_folder = 'nowhere': no such folder"),
    ],
)
def test_a_bad_parameter_is_one_line_and_nothing_is_made(call, root, arguments, words):
    before = snapshot(root)
    assert words in one_line(*call("run", "released", *arguments))
    assert snapshot(root) == before
    assert not (root / "runs").exists()


def test_an_option_that_lacks_its_value_or_is_unknown_is_a_usage_error(call, root):
    for arguments in (["run", "released", "-p"], ["run", "released", "--fast"], ["run"], ["rum"], ["reproduce", "--x"]):
        status, out, err = call(*arguments)
        assert status == 2
        assert out == ""
        assert re.search("^Error: ", err, re.MULTILINE)
        assert "Traceback" not in err
    assert not (root / "runs").exists()


# --- Experiments ---


def test_only_default_experiments_are_rebuilt_in_place(call, root):
    message = one_line(*call("reproduce", "mine"))
    assert message == "'mine': not a default experiment; expected released, sample, audit, or `fairnb run`"
    assert not (root / "runs").exists()


def test_an_unknown_experiment_names_the_known_ones(call, root):
    assert one_line(*call("run", "relesed")) == (
        "'relesed': no such experiment; did you mean released? expected one of released, sample, audit, or a .toml file"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", "not valid TOML: Invalid value (at end of document)"),
        ('name = "x"\ntitle = "x"\nseed = 1\n[notebooks]\na = []\n', "seed: unknown setting; known are name, title, "),
        ('name = "x"\ntitle = "x"\n', "notebooks: missing; add it"),
        ('name = "x"\ntitle = "x"\n[notebooks]\n', "notebooks = {}: "),
        (
            'name = "A b"\ntitle = "x"\n[notebooks]\na = []\n',
            "name = 'A b': expected small letters, digits and hyphens",
        ),
        ('name = "x"\ntitle = "x"\n[notebooks]\na = ["b"]\n', "notebook a needs b, which the plan does not run"),
        (
            'name = "x"\ntitle = "x"\n[notebooks]\na = ["b"]\nb = ["a"]\nc = []\n',
            "notebooks wait for each other: ['a', 'b']",
        ),
        ('name = "x"\ntitle = "x"\n[notebooks]\na = ["a"]\n', "notebooks wait for each other: ['a']"),
        ('name = "x"\ntitle = "x"\n[notebooks]\n99_none = []\n', "notebooks/99_none.ipynb: no such notebook"),
        (
            'name = "x"\ntitle = "x"\nparameters = {sead = 1}\n[notebooks]\n05_figures = []\n',
            "sead: no notebook of experiment x has this parameter; did you mean seed?",
        ),
        (
            'name = "x"\ntitle = "x"\nparameters = {seed = true}\n[notebooks]\n05_figures = []\n',
            "seed = True: expected a whole number",
        ),
    ],
)
def test_a_faulty_experiment_file_is_one_line(call, root, text, words):
    file = root / "mine.toml"
    file.write_text(text)
    assert words in one_line(*call("run", str(file)))
    assert not (root / "runs").exists()


def test_a_file_that_is_no_text_and_a_folder_are_no_experiments(call, root):
    (root / "x.toml").write_bytes(b"\xff\xfe\x00name")
    assert "x.toml: not a text file in UTF-8" in one_line(*call("run", str(root / "x.toml")))
    assert "no such experiment" in one_line(*call("run", str(root)))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("", "not a notebook; `git checkout` restores it"),
        ('{"cells": [', "not a notebook"),
        ('{"cells": 3}', "not a notebook"),
        ('{"cells": [{"cell_type": "code"}]}', "not a notebook"),
        ('{"cells": []}', "0 code cells tagged 'parameters'; expected exactly one"),
    ],
)
def test_a_damaged_notebook_is_one_line(call, root, damage, words):
    file = root / "notebooks" / f"{NSD}.ipynb"
    file.write_text(damage)
    for arguments in (["run", "released"], ["reproduce"], ["list"]):
        assert one_line(*call(*arguments)).startswith(f"notebooks/{NSD}.ipynb: ")
    assert words in one_line(*call("reproduce"))
    assert file.read_text() == damage
    assert not (root / "runs").exists()


def test_list_names_experiments_notebooks_and_parameters(call, root):
    status, out, err = call("list")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "released: FairEvalLLM from its released replies"
    assert lines[1] == f"  notebooks: {', '.join(sorted(NAMES))}"
    assert lines[2:9] == [
        "  -p dataset         'lastfm1k' data set",
        "  -p protocol        'released' protocol",
        "  -p replies         'released' whose replies",
        "  -p released_folder ''         folder of tables",
        "  -p alpha           0.05       level",
        "  -p permutations    10000      how many",
        "  -p seed            20240502   root of all random numbers",
    ]
    plan = load_plan("sample")
    assert lines[9] == f"sample: {plan.title}"
    assert lines[10] == f"  notebooks: {', '.join(sorted(plan.notebooks))}"
    # The values of the plan, where it sets one.
    assert "  -p replies         'this-run' whose replies" in lines[11:]
    assert "  -p sim_bias        'female=0.3' sim_bias" in lines[11:]


def test_a_terminal_without_greek_letters_gets_another_spelling(root):
    edit(root, FIGURES, "# level", "# level of |δ|")
    process = cli_process(root, "list", PYTHONIOENCODING="cp1252", PYTHONUTF8="0")
    status, out, err = finished(process)
    assert (status, err) == (0, "")
    assert "level of |\\u03b4|" in out


def test_a_key_given_as_a_parameter_is_refused_and_not_repeated(call, root):
    message = one_line(*call("run", "released", "-p", "api_key", "sk-test-123"))
    assert message.startswith("api_key: no notebook of experiment released has this parameter")
    assert "sk-test" not in message


@pytest.mark.parametrize("value", ["/nonexistent", "data", ""])
def test_a_root_that_is_none_is_one_line(call, root, monkeypatch, value):
    monkeypatch.setenv("FAIRNB_ROOT", str(root / value) if value == "data" else value)
    if value:
        assert "not a fairnb checkout" in one_line(*call("reproduce"))
        assert "unset it" in one_line(*call("list"))
    else:  # as good as unset: the checkout of this very package
        assert call("list")[0] == 0


def test_a_target_that_cannot_be_written_to_is_one_line(call, root):
    (root / "figures" / "released").write_text("in the way")
    assert "figures/released: cannot be written to" in one_line(*call("reproduce"))
    (root / "runs").write_text("in the way")
    assert "runs/released: cannot be written to" in one_line(*call("run", "released"))


# --- Data ---


def test_faults_of_the_data_commands_are_one_line(call, root, tmp_path):
    assert "nothing" in one_line(*call("data", "get", "nothing"))
    assert "nothing" in one_line(*call("data", "check", "nothing"))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert str(empty) in one_line(*call("data", "import-released", str(empty), "--to", str(tmp_path / "out")))
    assert str(tmp_path / "none") in one_line(*call("data", "import-released", str(tmp_path / "none")))
    assert not (tmp_path / "out").exists()
    assert "ftp" in one_line(*call("data", "get", "fairevalllm", "--mirror", "ftp://example.org/"))
    assert not (root / "data" / "external").exists()


def test_data_check_of_files_that_are_not_there_names_them_and_the_remedy(call, root):
    status, out, err = call("data", "check", "fairevalllm")
    assert status == 1
    assert {line.split()[0] for line in out.splitlines()} == {"missing"}
    assert "data/df_item_ml-1m.csv" in out
    assert err == "fairnb: 9 of 9 files are not as published; `fairnb data get fairevalllm` downloads them\n"


def test_import_tells_what_it_wrote_and_what_it_could_not_read(call, root, shared_folder):
    status, out, err = call("data", "import-released", str(shared_folder / "data" / "fairevalllm"))
    assert (status, err) == (0, "")
    assert "data/released/lastfm1k_top3.csv: 5,760 rows" in out
    assert "data/released/ml1m_top3.csv: 5,680 rows" in out
    assert re.search(r"^ml1m: the file has no column for ", out, re.MULTILINE)


# --- Whole runs, in processes of their own ---


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """Two rebuilds that are stopped in the middle, one gently and one by force, a rival, and a third that ends well."""
    root = make_project(tmp_path_factory.mktemp("interrupted") / "project")
    put(root, NSD, 'mark("03")', writing("nsd"))
    put(root, INTRINSIC, 'mark("04")', 'await_mark("go")', writing("intrinsic"))
    before = snapshot(root / "notebooks", root / "figures")
    found = {"root": root, "before": before}
    for way, number in (("gently", signal.SIGINT), ("by force", signal.SIGKILL)):
        process = cli_process(root, "reproduce", "released", new_session=True)
        said = read_until(process, root, "05_figures")
        if way == "gently":
            found["rival"] = finished(cli_process(root, "reproduce", "released"))
        os.killpg(process.pid, number)  # as a terminal does
        out, err = process.communicate(timeout=120)
        left = alive(root)
        for _ in range(600):  # after a gentle end there must be nothing to wait for
            if way == "gently" or not left:
                break
            time.sleep(0.1)
            left = alive(root)
        found[way] = (process.returncode, said + out, err, left, snapshot(root / "notebooks", root / "figures"))
        found[f"{way}, manifest"] = manifest(root / "runs" / "released")
        (root / "marks" / "04").unlink()
    (root / "marks" / "go").write_text("")
    found["last"] = finished(cli_process(root, "reproduce", "released"))
    return found


def read_until(process, root: Path, word: str) -> str:
    """Read lines until one has the word, and wait for the notebook that waits."""
    said = ""
    while word not in said:
        line = process.stdout.readline()
        assert line, f"it ended: {process.communicate()[1]}"
        said += line
    while not (root / "marks" / "04").exists():
        assert process.poll() is None
        time.sleep(0.02)
    return said


def finished(process) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


@pytest.mark.notebook
def test_an_interruption_is_one_line_and_leaves_no_kernel(interrupted):
    status, out, err, left, _ = interrupted["gently"]
    assert status == 130
    assert err == "fairnb: interrupted; what is finished is kept, the same command goes on from there\n"
    assert "04_intrinsic" not in out
    assert left == []


@pytest.mark.notebook
def test_a_killed_runner_leaves_no_kernel_either(interrupted):
    status, out, err, left, _ = interrupted["by force"]
    assert status == -signal.SIGKILL
    assert err == ""
    assert "05_figures               unchanged" in out
    assert left == []


@pytest.mark.notebook
@pytest.mark.parametrize("way", ["gently", "by force"])
def test_nothing_is_published_by_a_run_that_did_not_end(interrupted, way):
    assert interrupted[way][4] == interrupted["before"]
    kept = interrupted[f"{way}, manifest"]
    assert set(kept["notebooks"]) == {NSD, FIGURES}
    assert kept["complete"] is False


@pytest.mark.notebook
def test_a_second_run_of_the_same_experiment_is_refused_while_the_first_goes_on(interrupted):
    message = one_line(*interrupted["rival"])
    assert re.fullmatch(r"runs/released: process \d+ is running this experiment; wait for its end", message)


@pytest.mark.notebook
def test_the_next_run_goes_on_and_publishes(interrupted):
    status, out, err = interrupted["last"]
    assert err == ""
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "Experiment released"
    assert lines[1:3] == [f"  {NSD:<24} unchanged", f"  {FIGURES:<24} unchanged"]
    assert [re.sub(r"[\d.]+ s$", "T s", line) for line in lines[3:5]] == [
        f"  {INTRINSIC:<24} ran in T s",
        f"  {START:<24} ran in T s",
    ]
    assert re.sub(r"[\d.]+ s\.", "T s.", lines[5]) == "Notebooks: 2 ran, 2 unchanged, T s. Exhibits: figures/released/"
    assert len(lines) == 6
    root = interrupted["root"]
    assert {file.stem for file in (root / "figures" / "released").glob("*.csv")} == {
        *("nsd", "intrinsic", "00_start_here", "05_figures")
    }
    after = snapshot(root / "notebooks")
    for name, content in interrupted["before"].items():
        assert (after[name] != content) == (Path(name).stem in load_plan("released").notebooks)
    assert alive(root) == []


@pytest.mark.notebook
def test_two_runs_with_different_settings_go_on_at_once_and_a_statement_is_printed(tmp_path):
    root = make_project(tmp_path / "project")
    meet = 'mark(str(seed)); await_mark("1"); await_mark("2")'
    frame = 'pd.DataFrame({"statement": ["It agrees, in " + str(seed) + " ways."]})'
    put(root, FIGURES, meet, f'exhibits.write(experiment, [exhibits.Exhibit("agreement", "x", "y", {frame})])')
    file = plan_file(root, f"{FIGURES} = []")
    rows = root / "my tables"
    rows.mkdir()
    (rows / "lastfm1k_top3.csv").write_text(benefits("Female"))
    both = [
        cli_process(root, "run", file.name, "-p", "seed", seed, "-p", "released_folder", "my tables", cwd=root)
        for seed in ("1", "2")
    ]
    for seed, (status, out, err) in zip(("1", "2"), [finished(process) for process in both], strict=True):
        assert (status, err) == (0, "")
        assert out.startswith(f"Experiment mine: Mine\n  {FIGURES:<24} ran in ")
        assert out.endswith(f"It agrees, in {seed} ways.\n")
        folder = root / re.search(r"Exhibits: (runs/mine-[0-9a-f]{8})/figures/", out)[1]
        kept = manifest(folder)
        assert kept["notebooks"][FIGURES]["parameters"] == {"seed": int(seed), "released_folder": "my tables"}
        assert set(kept["inputs"]) == {"data/released/lastfm1k_top3.csv", "my tables/lastfm1k_top3.csv"}
        executed = json.loads((folder / "notebooks" / f"{FIGURES}.ipynb").read_text())
        injected = [cell for cell in executed["cells"] if "injected-parameters" in cell["metadata"].get("tags", [])]
        assert f"seed = {seed}\n" in injected[0]["source"]
    assert not (root / "figures" / "mine").exists()
