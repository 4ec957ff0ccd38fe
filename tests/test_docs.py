"""What README and data cards say must be what the code computes."""

import csv
import hashlib
import re
from pathlib import Path

import pytest

from fairnb.settings import PAPER, RELEASED, load_plan

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted([*ROOT.glob("*.md"), ROOT / "data/README.md", ROOT / "notebooks/README.md"])


def test_readme_quotes_the_agreement_that_was_computed():
    readme = (ROOT / "README.md").read_text("utf-8")
    with (ROOT / "figures/released/agreement.csv").open(encoding="utf-8", newline="") as file:
        statements = [line["statement"] for line in csv.DictReader(file)]
    assert len(statements) == 4
    assert "\n".join(statements) in readme


@pytest.mark.parametrize("document", DOCS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\(([^)#\s]+)\)", document.read_text("utf-8"))
    missing = [link for link in links if not link.startswith("https://") and not (document.parent / link).exists()]
    assert missing == []


def test_data_card_counts_rows_as_they_are():
    card = (ROOT / "data/README.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+\.csv)` \| ([\d,]+) \|", card, re.MULTILINE))
    assert set(rows) == {file.name for file in (ROOT / "data/released").glob("*.csv")}
    for name, count in rows.items():
        lines = (ROOT / "data/released" / name).read_text("utf-8").count("\n") - 1
        assert int(count.replace(",", "")) == lines, name


def test_both_tours_name_every_notebook_of_the_plan():
    for document in ("README.md", "notebooks/README.md", "notebooks/00_start_here.ipynb"):
        text = (ROOT / document).read_text("utf-8")
        assert not [name for name in load_plan("released").notebooks if name not in text and name not in document]


def test_the_readme_s_protocol_table_covers_the_choices_that_differ():
    differ = [name for name in type(PAPER).model_fields if getattr(PAPER, name) != getattr(RELEASED, name)]
    quiet = {"name"}
    lines = (ROOT / "README.md").read_text("utf-8").split("| choice |")[1].split("\n\n")[0].splitlines()[2:]
    assert len(lines) == len(set(differ) - quiet)


def test_no_system_is_called_unbiased_or_debiased():
    texts = [*DOCS, *ROOT.glob("fairnb/**/*.py"), *ROOT.glob("notebooks/*.ipynb")]
    # CONTRIBUTING quotes the words to forbid them; a paper's own title or prompt may hold them.
    wrong = [
        path.name
        for path in texts
        if path.name != "CONTRIBUTING.md"
        and re.search(r"\b(unbiased|debiased|de-biased)\b", path.read_text("utf-8"), re.IGNORECASE)
    ]
    assert wrong == []


def test_checksums_are_those_of_the_bundled_data():
    lines = (ROOT / "data/SHA256SUMS").read_text("utf-8").splitlines()
    sums = {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}
    files = [
        *(ROOT / "data").glob("published/*.csv"),
        *(ROOT / "data").glob("released/*.csv"),
        *(ROOT / "data").glob("sample/*/*"),
    ]
    found = {
        file.relative_to(ROOT / "data").as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files
    }
    assert sums == found
