"""The doctor: well where all is well, and for each thing that is not, what to do."""

import json
import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest

from fairnb import cli, doctor
from fairnb.doctor import examine

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of what the doctor looks at, with the real data and notebooks, outside of git."""
    root = tmp_path / "a project"
    for name in ("data/released", "data/published", "data/sample", "notebooks"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copy(ROOT / "data" / "SHA256SUMS", root / "data" / "SHA256SUMS")
    (root / "figures").mkdir()
    shutil.copy(ROOT / "pyproject.toml", root / "pyproject.toml")
    # Whatever the machine of the tests holds is well, so that what a test spoils is the only fault.
    needed = [doctor.re.split("[<>=!~; ]", text, maxsplit=1)[0] for text in metadata.requires("fairnb")]
    pins = [f"{name}=={metadata.version(name)} \\\n" for name in needed if doctor._version(name)]
    (root / "requirements.lock").write_text("".join(pins))
    monkeypatch.setenv("FAIRNB_ROOT", str(root))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    for variable in ("JUPYTER_PATH", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / "no kernels"))
    return root


def ill() -> dict[str, doctor.Finding]:
    """What the doctor finds fault with."""
    return {finding.check: finding for finding in examine() if not finding.good}


def call(monkeypatch, capsys) -> tuple[int, list[str]]:
    monkeypatch.setattr("sys.argv", ["fairnb", "doctor"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    assert err == ""
    return int(end.value.code or 0), out.splitlines()


def test_a_healthy_project_is_well(project, monkeypatch, capsys):
    status, lines = call(monkeypatch, capsys)
    assert (status, lines[-1]) == (0, "All is well.")
    assert all(line.startswith("ok  ") for line in lines[:-1])
    seen = {line.removeprefix("ok   ").split(":")[0] for line in lines[:-1]}
    assert seen >= {"interpreter", "environment", "packages", "compiled packages", "versions", "kernel", "notebooks"}
    assert seen >= {"data/released/lastfm1k_top3.csv", "data/released/ml1m_top3_heldout.csv", "other tables"}
    assert seen >= {"runs/", "figures/", "notebooks/", "checksums"}
    assert "ok   data/released/lastfm1k_top3.csv: 5,760 rows" in lines
    assert not (project / "runs").exists()


def test_every_finding_but_a_good_one_has_a_remedy(project):
    (project / "data" / "released" / "ml1m_split.csv").unlink()
    findings = list(examine())
    assert [finding.check for finding in findings if not finding.good] == ["other tables", "checksums"]
    assert all(finding.remedy for finding in findings if not finding.good)
    assert all(finding.found for finding in findings)


def test_a_missing_and_an_altered_file_are_told_with_the_remedy(project, monkeypatch, capsys):
    (project / "data" / "released" / "ml1m_top3.csv").unlink()
    altered = project / "data" / "released" / "lastfm1k_top3.csv"
    lines = altered.read_text().splitlines(keepends=True)
    altered.write_text("".join([*lines[:4], lines[4].replace("Male", "male").replace("Female", "female"), *lines[5:]]))
    (project / "data" / "published" / "fairevalllm_table4.csv").unlink()
    status, said = call(monkeypatch, capsys)
    assert (status, said[-1]) == (1, "4 to mend.")
    bad = [line for line in said if line.startswith("NOT")]
    assert len(bad) == 4
    assert "lastfm1k_top3.csv, line 5, column gender" in bad[0]
    assert "ml1m_top3.csv: no such file" in bad[1].replace(str(project), "")
    assert bad[2] == "NOT  other tables: missing: data/published/fairevalllm_table4.csv"
    assert bad[3] == (
        "NOT  checksums: data/published/fairevalllm_table4.csv: no such file; data/released/lastfm1k_top3.csv: not as "
        "committed; data/released/ml1m_top3.csv: no such file"
    )
    remedies = [said[said.index(line) + 1] for line in bad]
    assert remedies == [*["     -> git checkout data/released"] * 2, *["     -> git checkout data"] * 2]


def test_a_valid_but_changed_number_is_seen(project):
    file = project / "data" / "published" / "fairevalllm_table2.csv"
    file.write_text(file.read_text().replace("1", "2", 1))
    assert set(ill()) == {"checksums"}
    assert ill()["checksums"].found == "data/published/fairevalllm_table2.csv: not as committed"


def test_missing_and_damaged_notebooks_are_told(project):
    (project / "notebooks" / "05_figures.ipynb").unlink()
    (project / "notebooks" / "03_nsd_ncsd.ipynb").write_text("{")
    finding = ill()["notebooks"]
    assert "notebooks/05_figures.ipynb: no such notebook" in finding.found
    assert "notebooks/03_nsd_ncsd.ipynb: not a notebook" in finding.found
    assert finding.remedy == "git checkout notebooks"


def test_a_file_in_the_place_of_a_folder_is_told(project):
    (project / "runs").write_text("x")
    shutil.rmtree(project / "figures")
    (project / "figures").write_text("x")
    assert set(ill()) == {"runs/", "figures/"}
    assert ill()["runs/"].found == "a file is in its place"


def test_a_folder_that_may_not_be_written_to_is_told(project, monkeypatch):
    access = os.access
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: Path(path).name != "figures" and access(path, mode))
    assert set(ill()) == {"figures/"}
    assert (ill()["figures/"].found, "write to" in ill()["figures/"].remedy) == ("not writable", True)


# --- The machine ---


def test_an_old_interpreter_is_told(project, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 1, "final", 0))
    finding = next(examine())
    assert (finding.good, finding.found) == (False, "Python 3.10.1")
    assert "3.11" in finding.remedy


def test_packages_of_the_user_that_mix_in_are_told(project, monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.site, "getusersitepackages", lambda: str(tmp_path / "strange"))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "strange")])
    assert "PYTHONNOUSERSITE=1" in ill()["environment"].remedy
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "strange" not in entry])
    assert "environment" not in ill()


def test_an_interpreter_outside_of_any_environment_is_told(project, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    assert "make setup" in ill()["environment"].remedy
    (tmp_path / "conda" / "conda-meta").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "conda"))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "conda"))
    assert "environment" not in ill()


def test_missing_other_and_broken_packages_are_told(project, monkeypatch):
    version = metadata.version

    def another(name: str) -> str:
        if name in {"openai", "seaborn"}:
            raise metadata.PackageNotFoundError(name)
        return "0.1" if name == "jupyter_client" else version(name)

    monkeypatch.setattr(metadata, "version", another)
    load = doctor.import_module

    def broken(name: str) -> object:
        if name == "scipy":
            raise ValueError("numpy.dtype size changed,\nmay indicate binary incompatibility")
        return load(name)

    monkeypatch.setattr(doctor, "import_module", broken)
    found = ill()
    assert found["packages"].found == "missing: openai, seaborn"
    assert found["compiled packages"].found == (
        "cannot be loaded: scipy (numpy.dtype size changed, may indicate binary incompatibility)"
    )
    assert found["versions"].found == f"other than locked: jupyter_client 0.1 (locked {version('jupyter_client')})"
    assert set(found) == {"packages", "compiled packages", "versions"}
    assert all("make setup" in finding.remedy for finding in found.values())


def test_a_version_that_is_locked_for_another_python_is_as_locked(project):
    lock = project / "requirements.lock"
    name, version = "papermill", metadata.version("papermill")
    others = f"{name}==99 ; python_full_version >= '3.99' \\\n    --hash=sha256:0\n"
    lock.write_text(others + lock.read_text())
    assert ill() == {}
    lock.write_text(others)
    assert ill()["versions"].found == f"other than locked: {name} {version} (locked 99)"
    lock.unlink()
    assert ill() == {}


def test_a_package_that_is_not_installed_is_told(project, monkeypatch):
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert ill()["packages"].found == "fairnb is not installed"


def test_data_that_cannot_be_read_for_want_of_packages_is_told(project, monkeypatch):
    monkeypatch.setitem(sys.modules, "fairnb.released", None)
    finding = ill()["data"]
    assert finding.found.startswith("cannot be read (")
    assert finding.remedy == "run `make setup`"


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"argv": ["/opt/other/bin/python", "-m", "x"]}, "python3 is /opt/other/bin/python"),
        ({"argv": []}, "no usable kernel python3"),
        ("{", "no usable kernel python3"),
        ({"argv": ["python3", "-m", "ipykernel_launcher"]}, None),
        ({"argv": [str(Path(sys.executable).with_name("python")), "-m", "x"]}, None),
    ],
)
def test_another_kernel_of_the_name_is_told(project, monkeypatch, tmp_path, spec, found):
    folder = tmp_path / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True)
    text = spec if isinstance(spec, str) else json.dumps({"display_name": "x", "language": "python"} | spec)
    (folder / "kernel.json").write_text(text)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    if found is None:
        assert ill() == {}
    else:
        assert ill()["kernel"].found.startswith(found)
        assert "(found: " in ill()["kernel"].found
        assert "make lab" in ill()["kernel"].remedy


def test_a_kernel_of_another_environment_with_the_same_base_python_is_another(project, monkeypatch, tmp_path):
    other = tmp_path / "other" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.symlink_to(Path(sys.executable).resolve())
    folder = tmp_path / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": [str(other)], "display_name": "x", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    assert str(other) in ill()["kernel"].found
