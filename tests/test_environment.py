"""environment.yml, pyproject.toml and requirements.lock must speak of the same packages."""

import re
import tomllib
from pathlib import Path

import yaml

import fairnb

ROOT = Path(__file__).resolve().parents[1]
CONDA_NAMES = {"matplotlib-base": "matplotlib", "seaborn-base": "seaborn"}


def split(requirement: str) -> tuple[str, str]:
    name, limits = re.fullmatch(r"([A-Za-z0-9_.-]+?)((?:[<>=!~].*)?)", requirement.replace(" ", "")).groups()
    return name.lower().replace("_", "-"), limits


def declared() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    return dict(split(requirement) for requirement in project["dependencies"] + extras)


def conda() -> list:
    return yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]


def test_environment_yml_names_the_packages_of_pyproject_with_the_same_limits():
    pins = dict(split(entry) for entry in conda() if isinstance(entry, str))
    assert pins.pop("python") == ">=3.11"
    assert pins.pop("pip") == ""
    assert {CONDA_NAMES.get(name, name): limits for name, limits in pins.items()} == declared()


def test_environment_yml_has_no_builds_and_installs_the_package_by_pip():
    entries = [entry for entry in conda() if isinstance(entry, str)]
    assert not [entry for entry in entries if re.search(r"=\S+=\S+$", entry.replace(">=", ">").replace("<=", "<"))]
    assert {"pip": ["-e ."]} in conda()


def test_the_lock_pins_every_declared_package_with_hashes():
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    blocks = re.findall(r"^([A-Za-z0-9_.\[\]-]+)==(\S+)(.*?)(?=^\S|\Z)", lock, re.MULTILINE | re.DOTALL)
    names = {name.split("[")[0].lower().replace("_", "-"): rest for name, _, rest in blocks}
    assert set(declared()) <= set(names)
    assert len(blocks) > 100
    assert not [name for name, rest in names.items() if "--hash=sha256:" not in rest]
    assert not re.findall(r"^.*(?:index-url|find-links|https?:).*$", lock, re.MULTILINE)


def test_the_user_s_own_list_is_there():
    asked = {"jupyterlab", "papermill", "pandas", "seaborn", "scipy", "statsmodels", "openai", "nbval"}
    assert asked <= set(declared())


def test_changelog_names_every_dependency_and_versions_agree():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8").lower().replace("_", "-")
    assert not [name for name in declared() if name not in text]
    assert f"## {fairnb.__version__}" in text
    assert f"version: {fairnb.__version__}" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_citation_names_both_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert [reference["identifiers"][0]["value"] for reference in citation["references"]] == [
        "arXiv:2405.02219",
        "arXiv:2603.12935",
    ]
