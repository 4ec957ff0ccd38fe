"""The runner: order, what is run again, what a failure leaves behind, and what a manifest says."""

import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import zmq
from fake_project import (
    NAMES,
    PARAMETERS,
    SAMPLE,
    SAMPLE_PARAMETERS,
    alive,
    benefits,
    edit,
    make_project,
    manifest,
    notebook,
    plan_file,
    put,
    snapshot,
    writing,
)

from fairnb import kernel, paths, pipeline
from fairnb.errors import DataError, FairnbError, NotebookError, ParameterError, ProtocolError
from fairnb.settings import Experiment, Plan, load_plan

SECRET = "sk-test-123"
START, NSD, INTRINSIC, FIGURES = NAMES


package_hash = pipeline._package_hash


@pytest.fixture(scope="module", autouse=True)
def _one_package():
    """Hold the package still: who edits it while the tests run would see notebooks run again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "_package_hash", lambda: "this one")
        yield


def sha(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


# --- A whole run, by one fixture: everything that can be seen in a run that goes well ---


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A default experiment rebuilt, and a part of it once more, in a folder with spaces, on a hostile machine."""
    base = tmp_path_factory.mktemp("good")
    root = make_project(base / "a folder {with} spaces")
    together = 'mark("03"); await_mark("04"); print("both there"); time.sleep(2)'
    put(root, NSD, together, writing("nsd"), 'mark("03 done")')
    put(root, INTRINSIC, 'mark("04"); await_mark("03"); time.sleep(2)', 'mark("04 done")', writing("intrinsic"))
    # The third of three independent notebooks: it can start only when one of the others has ended.
    third = 'finished = [n for n in ("03 done", "04 done") if (marks / n).exists()]\nmark("05")'
    put(
        root,
        FIGURES,
        third,
        "print('of this machine')",
        "import builtins\nprint(hasattr(builtins, 'strange'))",
        writing("figures", "len(finished) > 0"),
        tags={4: ["volatile"]},
    )
    sums = '(float(pd.read_csv(folder / "nsd.csv").value[0]) + float(pd.read_csv(folder / "intrinsic.csv").value[0]))'
    put(root, START, 'folder = exhibits.folder(experiment); mark("00")', writing("sum", sums))

    strange = base / "jupyter" / "kernels" / "python3"
    strange.mkdir(parents=True)
    spec = {"argv": ["/bin/false"], "display_name": "x", "language": "python", "env": {"PYTHONPATH": "/nowhere"}}
    (strange / "kernel.json").write_text(json.dumps(spec))
    startup = base / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "0.py").write_text("import builtins\nbuiltins.strange = True\n")
    elsewhere = base / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "pandas.py").write_text("raise RuntimeError('imported from the folder of the caller')\n")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRNB_ROOT", str(root))
        patch.setenv("JUPYTER_PATH", str(base / "jupyter"))
        patch.setenv("JUPYTER_DATA_DIR", str(base / "jupyter"))
        patch.setenv("IPYTHONDIR", str(base / "ipython"))
        patch.setenv("FAKE_API_KEY", SECRET)
        patch.setenv("FAIRNB_FIGURES", str(base / "not here"))
        patch.chdir("/")
        lines: list[str] = []
        first = pipeline.reproduce("released", announce=lines.append)
        published = snapshot(root / "figures", root / "notebooks")
        kept = manifest(root / "runs" / "released")
        patch.chdir(elsewhere)
        plan = Plan(name="again", title="x", notebooks={INTRINSIC: [], FIGURES: []})
        second = pipeline.run(plan, announce=lambda line: None)
    assert not (base / "not here").exists()
    return {"root": root, "first": first, "lines": lines, "published": published, "second": second, "manifest": kept}


@pytest.fixture
def rerun(good, tmp_path, monkeypatch):
    """A copy of the finished project, and a way to see what would run: nothing is executed but by name."""
    root = tmp_path / "copy"
    shutil.copytree(good["root"], root)
    monkeypatch.setenv("FAIRNB_ROOT", str(root))
    wanted: list[str] = []

    def write_alike(plan, names, injected, folder, key_variable, announce):
        for name in names:
            wanted.append(name)
            target, _, _ = pipeline._files(name, folder)
            exhibits = {f"{name}.csv": "from a run that was not one\n"}
            for exhibit, text in exhibits.items():
                paths.write_text(folder / "figures" / exhibit, text)
            paths.write_text(target, '{"cells": []}')
            yield (
                name,
                {
                    "seconds": 0.0,
                    "notebook": sha(target),
                    "exhibits": {exhibit: sha(folder / "figures" / exhibit) for exhibit in exhibits},
                },
            )

    monkeypatch.setattr(pipeline, "_execute_all", write_alike)

    def again(given=None, plan=None, **options) -> list[str]:
        wanted.clear()
        outcome = pipeline.run(plan or load_plan("released"), given, announce=lambda line: None, **options)
        assert list(outcome.ran) == wanted
        assert set(outcome.unchanged) == set((plan or load_plan("released")).notebooks) - set(wanted)
        return sorted(wanted)

    again.root = root
    return again


@pytest.mark.notebook
def test_every_notebook_runs_once_and_has_one_line(good):
    assert sorted(good["first"].ran) == sorted(NAMES)
    assert good["first"].unchanged == ()
    assert sorted(line.split()[0] for line in good["lines"]) == sorted(NAMES)
    assert all("ran in" in line for line in good["lines"])


@pytest.mark.notebook
def test_a_notebook_runs_after_those_it_needs_and_reads_what_they_wrote(good):
    assert good["lines"][-1].split()[0] == START or good["lines"][-2].split()[0] == START
    assert (good["root"] / "figures" / "released" / "sum.csv").read_text() == f"value\n{2 * Experiment().seed}\n"


@pytest.mark.notebook
def test_two_independent_notebooks_run_at_the_same_time_and_a_third_waits(good):
    # 03 and 04 each wait for the other's mark: one after the other they would have failed.
    output = nbformat.read(good["root"] / "notebooks" / f"{NSD}.ipynb", 4).cells[3].outputs[0]
    assert output.text == "both there\n"
    assert (good["root"] / "figures" / "released" / "figures.csv").read_text() == "value\nTrue\n"


@pytest.mark.notebook
def test_neither_another_python3_kernel_nor_the_reader_s_own_ipython_nor_the_folder_of_the_caller_is_used(good):
    # The kernel named python3 fails at once, the start-up file leaves a trace, and pandas.py stops any import.
    cells = nbformat.read(good["root"] / "notebooks" / f"{FIGURES}.ipynb", 4).cells
    assert cells[5].outputs[0].text == "False\n"


@pytest.mark.notebook
def test_a_volatile_output_is_not_kept(good):
    cells = nbformat.read(good["root"] / "notebooks" / f"{FIGURES}.ipynb", 4).cells
    assert [len(cell.outputs) for cell in cells[1:]] == [0, 0, 0, 0, 1, 1]
    assert [cell.execution_count for cell in cells[1:]] == list(range(1, len(cells)))


@pytest.mark.notebook
def test_a_second_run_makes_every_byte_again(good):
    root = good["root"]
    assert snapshot(root / "figures", root / "notebooks") == good["published"]
    assert len(good["published"]) == 7 + 3 * 4  # the notebooks of the other experiment stay as they are
    folder = good["second"].folder
    assert folder.parent == root / "runs"
    assert folder.name.startswith("again-")
    assert len(list((folder / "figures").iterdir())) == 6
    for file in (folder / "figures").iterdir():
        assert file.read_bytes() == good["published"][str(root / "figures" / "released" / file.name)]
    for name in (INTRINSIC, FIGURES):
        again = (folder / "notebooks" / f"{name}.ipynb").read_bytes()
        assert again == good["published"][str(root / "notebooks" / f"{name}.ipynb")]


@pytest.mark.notebook
def test_published_notebooks_hold_nothing_of_the_run(good):
    for name in NAMES:
        text = (good["root"] / "notebooks" / f"{name}.ipynb").read_text("utf-8")
        assert str(good["root"]) not in text
        assert "papermill" not in text
        assert "start_time" not in text
        assert text.endswith("}\n")
        assert any(cell["outputs"] for cell in json.loads(text)["cells"][2:])


@pytest.mark.notebook
def test_a_secret_of_the_environment_is_in_no_file(good):
    files = snapshot(good["root"])
    assert any("/logs/" in name for name in files)
    assert [name for name, content in files.items() if SECRET.encode() in content] == []


@pytest.mark.notebook
def test_no_kernel_is_left(good):
    assert alive(good["root"]) == []


@pytest.mark.notebook
def test_the_manifest_says_what_was_run_on_what(good):
    root, kept = good["root"], good["manifest"]
    assert kept["experiment"] == "released"
    assert kept["complete"] is True
    assert kept["settings"] == Experiment().model_dump()
    assert kept["protocol"]["test"] == "welch"
    assert kept["inputs"] == {"data/released/lastfm1k_top3.csv": sha(root / "data" / "released" / "lastfm1k_top3.csv")}
    assert kept["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"fairnb", "numpy", "pandas", "papermill", "ipykernel"} <= set(kept["versions"])
    assert kept["commit"].startswith("unknown")
    assert set(kept["notebooks"]) == set(NAMES)
    for name, entry in kept["notebooks"].items():
        assert entry["parameters"] == {}
        assert entry["seconds"] > 0
        assert (
            entry["notebook"]
            == hashlib.sha256(good["published"][str(root / "notebooks" / f"{name}.ipynb")]).hexdigest()
        )
        for exhibit, digest in entry["exhibits"].items():
            assert digest == hashlib.sha256(good["published"][str(root / "figures" / "released" / exhibit)]).hexdigest()
    assert set(kept["notebooks"][START]["exhibits"]) == {"sum.csv", "sum.html", "sum.tex"}
    assert str(root) not in json.dumps(kept)


def test_the_commit_of_a_checkout_is_named(monkeypatch, tmp_path):
    root = make_project(tmp_path / "project")
    monkeypatch.setenv("FAIRNB_ROOT", str(root))
    own = ["user.name=x", "user.email=x@example.org", "commit.gpgsign=false", "core.hooksPath=/dev/null"]
    git = ["git", "-C", str(root), *(word for setting in own for word in ("-c", setting))]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        assert pipeline.subprocess.run([*git, *words], check=False).returncode == 0
    commit = pipeline._commit()
    assert len(commit) == 40
    assert set(commit) <= set("0123456789abcdef")
    edit(root, NSD, "seed", "speed")
    assert pipeline._commit() == f"{commit}-dirty"


# --- What is run again ---


@pytest.mark.notebook
def test_what_is_unchanged_is_not_run_again(rerun):
    before = snapshot(rerun.root / "runs" / "released" / "figures", rerun.root / "runs" / "released" / "notebooks")
    assert rerun() == []
    after = snapshot(rerun.root / "runs" / "released" / "figures", rerun.root / "runs" / "released" / "notebooks")
    assert after == before
    assert rerun(force=True) == sorted(NAMES)


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("changed", "again"),
    [(NSD, [START, NSD]), (INTRINSIC, [START, INTRINSIC]), (FIGURES, [FIGURES]), (START, [START])],
)
def test_a_changed_cell_runs_its_notebook_and_those_that_need_it(rerun, changed, again):
    edit(rerun.root, changed, "One number.", "Another.")
    assert rerun() == again
    assert rerun() == []


@pytest.mark.notebook
def test_dependants_of_dependants_run_too(rerun):
    for name, (old, new) in {"first": (START, "1"), "second": (START, "2"), "third": (START, "3")}.items():
        put(rerun.root, name, writing(name, new))
        assert old
    plan = Plan(name="chain", title="x", notebooks={"third": ["second"], "second": ["first"], "first": []})
    assert rerun(plan=plan) == ["first", "second", "third"]
    assert rerun(plan=plan) == []
    edit(rerun.root, "first", "One number.", "Another.")
    assert rerun(plan=plan) == ["first", "second", "third"]
    edit(rerun.root, "second", "One number.", "Another.")
    assert rerun(plan=plan) == ["second", "third"]
    assert rerun(plan=plan) == []


@pytest.mark.notebook
def test_a_changed_title_or_tag_counts_but_a_stored_output_does_not(rerun):
    edit(rerun.root, FIGURES, f"# {FIGURES}", "# Another title")
    assert rerun() == [FIGURES]
    edit(rerun.root, FIGURES, '"volatile"', '"remarkable"')
    assert rerun() == [FIGURES]
    edit(rerun.root, NSD, '"both there\\n"', '"something else\\n"')
    assert rerun() == []


@pytest.mark.notebook
@pytest.mark.parametrize("folder", ["released", "published"])
def test_changed_added_and_removed_inputs_count(rerun, folder):
    file = rerun.root / "data" / folder / "another.csv"
    for text in ("a\n1\n", "a\n2\n"):
        file.write_text(text)
        assert rerun() == sorted(NAMES)
        assert rerun() == []
    file.unlink()
    assert rerun() == sorted(NAMES)


@pytest.mark.notebook
def test_another_package_or_version_counts(rerun, monkeypatch):
    monkeypatch.setattr(pipeline, "_package_hash", lambda: "another")
    assert rerun() == sorted(NAMES)
    assert rerun() == []
    versions = pipeline.versions()
    monkeypatch.setattr(pipeline, "versions", lambda: versions | {"numpy": "99"})
    assert rerun() == sorted(NAMES)


def test_the_package_is_told_by_every_file_of_it(tmp_path, monkeypatch):
    package = tmp_path / "fairnb"
    (package / "experiments").mkdir(parents=True)
    for name in ("pipeline.py", "other.py", "experiments/x.toml"):
        (package / name).write_text("a")
    monkeypatch.setattr(pipeline, "__file__", str(package / "pipeline.py"))
    seen = {package_hash()}
    for name in ("pipeline.py", "other.py", "experiments/x.toml"):
        (package / name).write_text("b")
        seen.add(package_hash())
    (package / "other.py").rename(package / "another.py")
    seen.add(package_hash())
    assert len(seen) == 5
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "x.pyc").write_text("c")
    assert package_hash() in seen


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("figures/nsd.csv", [START, NSD]),
        ("figures/figures.tex", [FIGURES]),
        ("notebooks/04_intrinsic_fairness.ipynb", [START, INTRINSIC]),
        ("notebooks/00_start_here.ipynb", [START]),
    ],
)
@pytest.mark.parametrize("damage", ["deleted", "altered", "cut off"])
def test_a_lost_or_altered_result_is_made_again(rerun, name, again, damage):
    file = rerun.root / "runs" / "released" / name
    if damage == "deleted":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes() + b" " if damage == "altered" else file.read_bytes()[:5])
    assert rerun() == again
    assert rerun() == []


@pytest.mark.notebook
@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"notebooks": []}', '{"notebooks": {"03_nsd_ncsd": 3}}', '{"notebooks": null}', "\xff"],
)
def test_a_half_written_or_foreign_manifest_runs_everything(rerun, text):
    (rerun.root / "runs" / "released" / "manifest.json").write_bytes(text.encode("latin-1"))
    assert rerun() == sorted(NAMES)
    assert manifest(rerun.root / "runs" / "released")["complete"] is True


@pytest.mark.notebook
@pytest.mark.parametrize("key", ["fingerprint", "notebook", "exhibits"])
def test_an_entry_that_lacks_something_runs_its_notebook(rerun, key):
    file = rerun.root / "runs" / "released" / "manifest.json"
    content = json.loads(file.read_text("utf-8"))
    del content["notebooks"][FIGURES][key]
    file.write_text(json.dumps(content), "utf-8")
    assert rerun() == [FIGURES]


@pytest.mark.notebook
def test_what_no_notebook_writes_any_more_is_not_kept(rerun):
    figures = rerun.root / "runs" / "released" / "figures"
    (figures / "from_long_ago.csv").write_text("x")
    assert rerun() == []
    assert not (figures / "from_long_ago.csv").exists()
    edit(rerun.root, FIGURES, "One number.", "Another.")
    assert rerun() == [FIGURES]  # which writes another name now
    assert sorted(file.name for file in figures.glob("*.csv")) == [
        "05_figures.csv",
        "intrinsic.csv",
        "nsd.csv",
        "sum.csv",
    ]


@pytest.mark.notebook
def test_other_settings_have_a_folder_of_their_own_and_leave_the_first_as_it_is(rerun):
    before = snapshot(rerun.root / "runs" / "released")
    assert rerun({"seed": 7}) == sorted(NAMES)
    assert rerun({"seed": "7"}) == []
    assert rerun({"seed": np.int64(7)}) == []
    assert rerun({"seed": 8}) == sorted(NAMES)
    assert rerun({"seed": Experiment().seed}) == []
    after = snapshot(rerun.root / "runs" / "released")
    assert {name for name in after if after[name] != before.get(name)} <= {
        str(rerun.root / "runs/released/manifest.json")
    }


@pytest.mark.notebook
@pytest.mark.parametrize("when", ["notebook", "data"])
def test_nothing_is_published_if_something_changed_during_the_run(rerun, monkeypatch, when):
    before = snapshot(rerun.root / "figures")
    execute = pipeline._execute_all

    def change_meanwhile(*arguments):
        yield from execute(*arguments)
        if when == "notebook":
            edit(rerun.root, NSD, "One number.", "Edited by the reader meanwhile.")
        else:
            (rerun.root / "data" / "released" / "new.csv").write_text("a\n")

    monkeypatch.setattr(pipeline, "_execute_all", change_meanwhile)
    with pytest.raises(FairnbError, match="changed during the run"):
        pipeline.reproduce("released", force=True, announce=lambda line: None)
    assert snapshot(rerun.root / "figures") == before
    assert ("meanwhile" in (rerun.root / "notebooks" / f"{NSD}.ipynb").read_text()) is (when == "notebook")
    monkeypatch.setattr(pipeline, "_execute_all", execute)
    pipeline.reproduce("released", force=True, announce=lambda line: None)
    assert (rerun.root / "figures" / "released" / "03_nsd_ncsd.csv").is_file()


# --- Failures ---


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """A run in which one notebook raises, one kills its kernel, one is well, and one needs the first."""
    root = make_project(tmp_path_factory.mktemp("bad") / "project")
    put(root, NSD, 'mark("03")', 'raise KeyError("the first line\\nthe second line")', writing("nsd"))
    put(root, INTRINSIC, 'mark("04")\nimport signal\nos.kill(os.getpid(), signal.SIGKILL)', writing("intrinsic"))
    # Many lines, and many messages: the kernel is done long before its reader has seen them all.
    chatter = (
        "for i in range(200_000): print(i)\nkernel = get_ipython().kernel\nfor i in range(5_000):\n"
        "    message = {'name': 'stdout', 'text': 'x' * 5_000}\n"
        "    kernel.session.send(kernel.iopub_socket, 'stream', message, parent=get_ipython().parent_header)"
    )
    put(root, FIGURES, 'mark("05")', chatter, writing("figures"), tags={4: ["volatile"]})
    before = snapshot(root / "notebooks", root / "figures")
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRNB_ROOT", str(root))
        with pytest.raises(NotebookError) as error:
            pipeline.reproduce("released", announce=lines.append)
    return {"root": root, "message": str(error.value), "lines": lines, "before": before}


@pytest.mark.notebook
def test_a_failure_names_notebook_cell_exception_and_its_first_line(bad):
    assert f"notebooks/{NSD}.ipynb, code cell 4: KeyError: 'the first line\\nthe second line'" in bad["message"]
    assert f"runs/released/notebooks/{NSD}.unfinished.ipynb" in bad["message"]


@pytest.mark.notebook
def test_a_killed_kernel_is_told_with_its_cell_and_memory_and_none_is_left(bad):
    assert (
        f"notebooks/{INTRINSIC}.ipynb, code cell 3: its kernel was killed, perhaps for want of memory" in bad["message"]
    )
    assert alive(bad["root"]) == []


@pytest.mark.notebook
def test_a_failure_leaves_the_others_results_and_what_is_under_version_control(bad):
    assert snapshot(bad["root"] / "notebooks", bad["root"] / "figures") == bad["before"]
    kept = manifest(bad["root"] / "runs" / "released")
    assert set(kept["notebooks"]) == {FIGURES}
    assert kept["complete"] is False
    assert (bad["root"] / "runs" / "released" / "figures" / "figures.csv").is_file()
    said = {line.split()[0]: line.split(None, 1)[1] for line in bad["lines"]}
    assert said[NSD] == said[INTRINSIC] == "FAILED"
    assert said[FIGURES].startswith("ran in")
    assert said[START] == f"not run: it needs {NSD}, {INTRINSIC}"


@pytest.mark.notebook
def test_a_chatty_notebook_comes_to_its_end(bad):
    cells = nbformat.read(bad["root"] / "runs" / "released" / "notebooks" / f"{FIGURES}.ipynb", 4).cells
    assert cells[4].execution_count == 4
    assert cells[4].outputs == []


def test_a_reader_is_given_minutes_to_catch_up_with_a_cell_and_a_kernel_to_start(monkeypatch, tmp_path):
    options = {}
    monkeypatch.setattr("papermill.execute_notebook", lambda *_, **given: options.update(given))
    monkeypatch.setenv("IPYTHONDIR", "so that it is set back")
    kernel.execute(tmp_path / "a.ipynb", tmp_path / "b.ipynb", {"k": 3})
    assert options["iopub_timeout"] >= 120  # papermill's own 4 s fail a run that is at its end
    assert options["start_timeout"] >= 120
    assert options["parameters"] == {"k": 3}


def test_a_client_drops_no_message_and_does_not_share_the_context_of_its_manager():
    manager = kernel.ThisInterpreter()
    client = manager.client()
    with client.context.socket(zmq.SUB) as socket:
        assert socket.rcvhwm == 0
    assert client.context is not manager.context  # which ends first, and would wait for the client's sockets for ever
    client.context.destroy()
    manager.context.destroy()


@pytest.mark.notebook
def test_the_message_is_of_one_line(bad):
    assert len(bad["message"].splitlines()) == 1


@pytest.mark.notebook
def test_after_a_repair_only_the_rest_is_run(bad, monkeypatch):
    root = bad["root"]
    monkeypatch.setenv("FAIRNB_ROOT", str(root))
    # What a failed notebook wrote in a former run is gone: it must be written now.
    (root / "runs" / "released" / "figures" / "ghost.csv").write_text("x")
    put(root, NSD, "1 + 1")
    ghost = 'class Ghost:\n    def _repr_mimebundle_(self, **_):\n        return {KEY: ["ghost.csv"]}\n'
    put(root, INTRINSIC, "from fairnb.notebook import WRITTEN_TYPE as KEY\n" + ghost, "Ghost()")
    lines: list[str] = []
    with pytest.raises(NotebookError) as error:
        pipeline.reproduce("released", announce=lines.append)
    assert f"notebooks/{NSD}.ipynb: came to its end but wrote no exhibit" in str(error.value)
    assert f"notebooks/{INTRINSIC}.ipynb: came to its end but did not write ghost.csv" in str(error.value)
    assert lines[0].split() == [FIGURES, "unchanged"]
    assert set(manifest(root / "runs" / "released")["notebooks"]) == {FIGURES}


@pytest.mark.notebook
def test_the_cell_is_numbered_as_in_the_notebook_also_when_parameters_are_injected(tmp_path, monkeypatch):
    root = make_project(tmp_path / "project")
    monkeypatch.setenv("FAIRNB_ROOT", str(root))
    put(root, NSD, "1 + 1", "raise ValueError(f'\\n\\n seed is {seed} \\nmore')")
    plan = Plan(name="one", title="x", notebooks={NSD: []})
    with pytest.raises(NotebookError, match=r"03_nsd_ncsd\.ipynb, code cell 4: ValueError: seed is 7 \(the run"):
        pipeline.run(plan, {"seed": "7"}, announce=lambda line: None)


@pytest.mark.parametrize("status", [1, -9])
def test_a_process_that_could_not_even_start_a_kernel_says_why(tmp_path, monkeypatch, status):
    root = make_project(tmp_path / "project")
    monkeypatch.setenv("FAIRNB_ROOT", str(root))
    log = root / "x.log"
    log.write_text("Traceback\nModuleNotFoundError: No module named 'papermill'\n\nbye\n")
    why = pipeline._why(NSD, status, root / "none.ipynb", log)
    assert why.startswith(f"notebooks/{NSD}.ipynb: ")
    assert (": ModuleNotFoundError: No module named 'papermill' (log: x.log)" in why) is (status == 1)
    assert ("memory" in why) is (status == -9)
    log.write_text("")
    assert "see the log (log: x.log)" in pipeline._why(NSD, 1, root / "none.ipynb", log)


# --- Before any kernel starts ---


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    root = make_project(tmp_path / "project")
    monkeypatch.setenv("FAIRNB_ROOT", str(root))
    monkeypatch.setattr(pipeline, "_start", lambda *_: pytest.fail("a kernel was started"))
    return root


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"permutatons": 1000},
            "permutatons: no notebook of experiment released has this parameter; did you mean perm",
        ),
        ({"kk": 1}, "kk: no notebook .* has this parameter .known: alpha, dataset"),
        ({"name": "x"}, "name: no notebook"),
        ({"permutations": "many"}, "permutations = 'many': expected a whole number such as 1000 .how many"),
        ({"permutations": "010"}, "permutations = '010'"),
        ({"permutations": 1.0}, "permutations = 1.0"),
        ({"permutations": True}, "permutations = True"),
        ({"permutations": 99}, "permutations = 99: input should be greater"),
        ({"alpha": "1e999"}, "alpha = '1e999': expected a number"),
        ({"alpha": 1.5}, "alpha = 1.5: input should be less"),
        ({"alpha": None}, "alpha = None: expected a number"),
        ({"dataset": "lastfm"}, "dataset = 'lastfm': input should be 'lastfm1k', 'ml1m', 'ml100k'"),
        ({"dataset": ("ml1m",)}, r"dataset = \('ml1m',\): expected a text"),
        ({"released_folder": "no/such"}, "released_folder = 'no/such': no such folder"),
        ({"released_folder": "a\0b"}, "released_folder = .*: no such folder"),
        ({"released_folder": "x" * 5000}, "released_folder = .*: no such folder"),
        ({"released_folder": "~nobody-of-this-name/x"}, "released_folder = .*: no such folder"),
    ],
)
def test_a_parameter_that_does_not_fit_is_told_before_anything_is_made(fresh, given, words):
    before = snapshot(fresh)
    with pytest.raises(ParameterError, match=words):
        pipeline.run(load_plan("released"), given)
    assert snapshot(fresh) == before
    assert not (fresh / "runs").exists()


def test_a_protocol_that_does_not_go_with_the_data_is_told_before_anything_is_made(fresh):
    with pytest.raises(ProtocolError, match=r"protocol = 'paper' .* expected dataset = ml1m"):
        pipeline.run(load_plan("released"), {"protocol": "paper"})
    assert not (fresh / "runs").exists()


def test_a_folder_without_the_table_or_with_a_damaged_one_is_told_before_anything_is_made(fresh, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    with pytest.raises(DataError, match=r"mine/lastfm1k_top3\.csv: no such file"):
        pipeline.run(load_plan("released"), {"released_folder": folder})
    (folder / "lastfm1k_top3.csv").write_text(benefits("man"))
    with pytest.raises(DataError, match=r"mine/lastfm1k_top3\.csv, line 2, column gender: 'man'; expected"):
        pipeline.run(load_plan("released"), {"released_folder": str(folder)})
    assert not (fresh / "runs").exists()


def test_bundled_data_that_are_not_as_committed_are_told_before_anything_is_made(fresh):
    name = "released/lastfm1k_top3.csv"
    table = fresh / "data" / name
    (fresh / "data" / "SHA256SUMS").write_text(f"{sha(table)}  {name}\n{'0' * 64}  published/none.csv\n")
    with pytest.raises(
        DataError, match=r"^data/published/none\.csv: no such file .*; `git checkout data` restores it$"
    ):
        pipeline.run(load_plan("released"))
    table.write_text(benefits("Female"))  # a table like any other, but not the one that comes with the project
    with pytest.raises(DataError, match=rf"^data/{name}: not as committed \(see data/SHA256SUMS\)"):
        pipeline.run(load_plan("released"))
    assert not (fresh / "runs").exists()


def test_a_missing_notebook_is_told_before_anything_is_made(fresh):
    (fresh / "notebooks" / f"{NSD}.ipynb").unlink()
    with pytest.raises(ParameterError, match=rf"^notebooks/{NSD}\.ipynb: no such notebook"):
        pipeline.run(load_plan("released"))
    assert not (fresh / "runs").exists()


def test_reproduce_refuses_what_is_not_a_default_experiment(fresh):
    file = plan_file(fresh, f"{NSD} = []")
    with pytest.raises(ParameterError, match="mine is not a default experiment; use `fairnb run mine`"):
        pipeline.reproduce(str(file))
    assert not (fresh / "runs").exists()


@pytest.mark.parametrize("target", ["figures/released", "runs"])
def test_a_target_that_cannot_be_written_to_is_told_and_left(fresh, target):
    (fresh / target).write_text("a file is in its place")
    before = snapshot(fresh)
    with pytest.raises(
        FairnbError, match=rf"^{target}[^:]*: cannot be written to \(.*\); make it a writable folder, or"
    ):
        pipeline.reproduce("released")
    assert snapshot(fresh) == before


def test_resolve_injects_only_what_differs_and_only_where_it_is_declared(fresh):
    few = "".join(line for line in PARAMETERS.splitlines(keepends=True) if not line.startswith("alpha"))
    put(fresh, FIGURES, parameters=few)
    experiment, injected = pipeline.resolve(
        load_plan("released"), {"alpha": "0.1", "seed": 20240502, "dataset": "ml1m"}
    )
    assert experiment == Experiment(dataset="ml1m", alpha=0.1)
    assert injected[FIGURES] == {"dataset": "ml1m"}
    assert injected[NSD] == {"dataset": "ml1m", "alpha": 0.1}
    assert type(injected[NSD]["alpha"]) is float


@pytest.mark.parametrize(
    "routes",
    [
        [{"seed": "7"}, {"seed": 7}, {"seed": np.int64(7)}, {"seed": np.uint8(7)}],
        [{"alpha": "0.1"}, {"alpha": 0.1}, {"alpha": np.float64(0.1)}, {"alpha": "1e-1"}],
        [{"dataset": "ml1m"}, {"dataset": np.str_("ml1m")}],
        [{"seed": str(Experiment().seed)}, {}, {"alpha": "5e-2"}],
    ],
)
def test_the_same_values_give_the_same_run_by_every_route(fresh, routes):
    from_file = load_plan(str(plan_file(fresh, f"{NSD} = []", "released", f"parameters = {toml(routes[1])}")))
    found = [pipeline.resolve(load_plan("released"), given) for given in routes]
    assert len({experiment.slug for experiment, _ in found}) == 1
    assert all(injected[NSD] == found[0][1][NSD] for _, injected in found)
    assert pipeline.resolve(from_file, {})[0] == found[0][0]


def toml(values: dict) -> str:
    return "{" + ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items()) + "}"


def test_a_folder_means_the_same_from_the_root_from_where_the_user_is_and_as_a_path(fresh, monkeypatch):
    folder = fresh / "data" / "mine"
    folder.mkdir()
    monkeypatch.chdir(folder.parent)
    ways = ["mine", "./mine", "data/mine", str(folder), folder, Path("mine")]
    found = {pipeline.resolve(load_plan("released"), {"released_folder": way})[0].released_folder for way in ways}
    assert found == {"data/mine"}


def test_what_the_user_sets_overrides_the_file(fresh):
    plan = load_plan(str(plan_file(fresh, f"{NSD} = []", rest="parameters = {seed = 1, alpha = 0.2}")))
    experiment, _ = pipeline.resolve(plan, {"seed": "2"})
    assert (experiment.name, experiment.seed, experiment.alpha) == ("mine", 2, 0.2)


def test_the_files_of_another_folder_are_inputs_too(fresh):
    folder = fresh / "data" / "mine"
    folder.mkdir()
    (folder / "lastfm1k_top3.csv").write_text(benefits("Female"))
    inputs = pipeline._inputs(load_plan("released"), Experiment(released_folder="data/mine"))
    assert inputs == {
        f"data/{name}/lastfm1k_top3.csv": sha(fresh / "data" / name / "lastfm1k_top3.csv")
        for name in ("mine", "released")
    }


def test_raw_data_and_a_template_are_inputs_of_the_notebooks_that_read_them(fresh, monkeypatch):
    folder = fresh / "data" / "sample" / "lastfm-1k"
    folder.mkdir(parents=True)
    (folder / "plays.tsv").write_text("a play\n")
    (fresh / "mine.toml").write_text("a template")
    experiment = Experiment(name="sample", dataset="sample-songs", template="mine.toml", replies="this-run")
    assert pipeline._inputs(load_plan("sample"), experiment) == {}  # its notebook declares none of them here
    put(fresh, SAMPLE, parameters='data_folder: str = ""  # folder\ntemplate: str = "fairnb-1"  # wording\n')
    found = pipeline._inputs(load_plan("sample"), experiment)
    assert found == {
        "data/sample/lastfm-1k/plays.tsv": sha(folder / "plays.tsv"),
        "mine.toml": sha(fresh / "mine.toml"),
    }
    monkeypatch.setattr(pipeline, "_LARGE", 3)
    large = pipeline._inputs(load_plan("sample"), experiment)["data/sample/lastfm-1k/plays.tsv"]
    assert re.fullmatch(r"7 bytes, \d+", large)
    assert pipeline._inputs(load_plan("released"), Experiment()) == {
        "data/released/lastfm1k_top3.csv": sha(fresh / "data" / "released" / "lastfm1k_top3.csv")
    }


def test_a_template_is_found_from_where_the_user_is_and_kept_relative_to_the_root(fresh, tmp_path, monkeypatch):
    put(fresh, SAMPLE, parameters=f'{SAMPLE_PARAMETERS}template: str = "fairnb-1"  # wording\n')
    (fresh / "words").mkdir()
    (fresh / "words" / "mine.toml").write_text("")
    monkeypatch.chdir(fresh / "words")
    experiment, injected = pipeline.resolve(load_plan("sample"), {"template": "mine.toml"})
    assert experiment.template == "words/mine.toml"
    assert injected[SAMPLE] == {"template": "words/mine.toml"}
    experiment, _ = pipeline.resolve(load_plan("sample"), {"template": "released-lastfm"})
    assert experiment.template == "released-lastfm"
    with pytest.raises(ParameterError, match=r"template = 'none.toml': no such file; expected a template in TOML"):
        pipeline.resolve(load_plan("sample"), {"template": "none.toml"})


def test_notebooks_that_do_not_agree_on_a_default_are_told_to_be_set(fresh):
    plan = Plan(name="mine", title="Mine", notebooks={NSD: [], SAMPLE: []})
    with pytest.raises(ParameterError, match="dataset: notebooks of experiment mine have different defaults"):
        pipeline.resolve(plan, {})
    experiment, injected = pipeline.resolve(plan, {"dataset": "ml1m"})
    assert experiment.dataset == "ml1m"
    assert injected[NSD] == injected[SAMPLE] == {"dataset": "ml1m"}


def test_settings_that_nobody_set_are_those_that_the_notebook_runs_with(fresh):
    put(fresh, SAMPLE, parameters=SAMPLE_PARAMETERS.replace("k: int = 3", "k: int = 7"))
    experiment, injected = pipeline.resolve(load_plan("sample"), {"k": "7"})
    assert experiment.k == 7
    assert injected[SAMPLE] == {}
    assert pipeline.resolve(load_plan("sample"), {})[0].k == 7


# --- Locks ---


def test_a_lock_file_without_a_process_counts_for_nothing(fresh):
    folder = fresh / "runs" / "x"
    folder.mkdir(parents=True)
    for text in ("", "999999999", str(os.getpid()), "half writ"):
        (folder / ".lock").write_text(text)
        with pipeline._locked(folder):
            assert (folder / ".lock").read_text() == str(os.getpid())


def test_a_folder_in_use_is_refused_and_another_is_not(fresh):
    folder, other = fresh / "runs" / "x", fresh / "runs" / "y"
    with pipeline._locked(folder), pipeline._locked(other):
        with pytest.raises(FairnbError, match=rf"^runs/x: process {os.getpid()} is running this experiment"):
            pipeline._locked(folder).__enter__()
        assert (folder / ".lock").read_text() == str(os.getpid())
    with pipeline._locked(folder):
        pass


# --- clean ---


def test_clean_takes_out_what_differs_from_run_to_run_and_nothing_else():
    dirty = notebook(NSD, "print(1)", "print(2)", tags={4: ["volatile", "hide-input"]})
    dirty.metadata |= {"papermill": {"duration": 1.5}, "widgets": {}}
    dirty.metadata.kernelspec = {"name": "my-env-xyz", "display_name": "Mine", "language": "python"}
    dirty.metadata.language_info = {"name": "python", "version": "3.99.1"}
    output = nbformat.v4.new_output("stream", name="stdout", text="1\n")
    for number, cell in enumerate(dirty.cells):
        cell.metadata |= {"papermill": {"start_time": "2024-05-02"}, "execution": {"x": 1}, "collapsed": True}
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = number, [output]
    sources = [cell.source for cell in dirty.cells]
    pipeline.clean(dirty)
    assert dirty.metadata == {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert [cell.metadata for cell in dirty.cells] == [
        *({}, {"tags": ["parameters"]}, {}, {}, {"tags": ["volatile", "hide-input"]})
    ]
    assert [cell.get("outputs") for cell in dirty.cells] == [None, [output], [output], [output], []]
    assert [cell.get("execution_count") for cell in dirty.cells] == [None, 1, 2, 3, 4]
    assert [cell.source for cell in dirty.cells] == sources
    nbformat.validate(dirty)
