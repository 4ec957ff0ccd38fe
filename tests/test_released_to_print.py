"""From the author's released files to the sentence about agreement, with one digit changed on the way."""

import csv
import re
import shutil
from pathlib import Path

import pytest

from fairnb import fairness, released
from fairnb.exhibits import evaluated, tables
from fairnb.settings import Experiment

RESULTS = "results/final_df_foundItemIds_lastFM1k_fullInteraction_80users_nTrack10_lContext5_top3.csv"
CELL = "recommendation_for_prompt_counterfact-False_sample-frequent_userDemo-gender_interact-ICL-Few-shot-1_itemIds"


def statement(folder: Path, tmp_path: Path) -> str:
    released.import_released(folder, tmp_path / "tables")
    experiment = Experiment(released_folder=str(tmp_path / "tables"), permutations=100, replicates=100)
    rows = fairness.table(evaluated.load(experiment), experiment)
    figures = tmp_path / "figures"
    figures.mkdir()
    for exhibit in (
        tables.table2(rows, experiment),
        tables.table3(),
        tables.table4_check(fairness.intrinsic(evaluated.load(experiment), experiment), experiment),
    ):
        (figures / f"{exhibit.name}.csv").write_text(exhibit.csv, encoding="utf-8")
    return tables.agreement_with_print(figures, experiment).data["statement"].iloc[0]


@pytest.fixture
def copy(shared_folder, tmp_path):
    target = tmp_path / "released"
    shutil.copytree(shared_folder / "data" / "fairevalllm", target)
    for file in target.rglob("*.csv"):
        file.chmod(0o644)
    return target


@pytest.mark.shared
def test_the_released_files_agree_in_all_row_halves(copy, tmp_path):
    assert statement(copy, tmp_path).startswith("Table 2: 72 of 72 row-halves agree")


@pytest.mark.shared
def test_one_changed_digit_is_found_and_the_rows_are_named(copy, tmp_path):
    csv.field_size_limit(10**8)
    with (copy / RESULTS).open(encoding="utf-8", newline="") as file:
        table = list(csv.reader(file))
    place, truth = table[0].index(CELL), table[0].index("itemIds")
    for line in table[1:]:
        known = set(re.findall(r"\d+", line[truth]))
        ids = re.findall(r"\d+", line[place])
        if not ids or ids[0] not in known:
            continue
        changed = [ids[0][:at] + digit + ids[0][at + 1 :] for at in range(len(ids[0])) for digit in "123456789"]
        other = next((number for number in changed if number not in known), None)
        if other:
            line[place] = line[place].replace(ids[0], other, 1)
            break
    else:
        pytest.fail("no hit to change")
    with (copy / RESULTS).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(table)
    found = statement(copy, tmp_path)
    # The changed reply is the gender prompt of one scenario: its hit half must differ, its rank half may.
    assert re.match(r"Table 2: 7[01] of 72 ", found), found
    assert re.search(r"These differ: gender NSD ICL-1 freq hit[;.]", found), found
