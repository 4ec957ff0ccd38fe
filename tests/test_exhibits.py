"""Exhibits: every rendering says the same, escapes what it shows, and comes out alike each time."""

import csv
import io
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import fairnb
from fairnb import exhibits, fairness, paths
from fairnb.errors import DataError, FairnbError
from fairnb.exhibits import Exhibit, charts, evaluated, tables
from fairnb.exhibits.exhibit import decimals, latex_text, markdown_text, number_text, p_text
from fairnb.settings import Experiment

NASTY = "R&B_1 <b>10%</b> $9.99 #1 {x} ~^\\ Beyoncé 椎名 | a`b*"


def nasty() -> Exhibit:
    data = pd.DataFrame({"HR@10_%": [0.1, np.nan], "model_name": [NASTY, "<script>alert(1)</script>"]})
    return Exhibit("nasty", "Title & <i>", f"Caption {NASTY}", data)


class Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment()


@pytest.fixture(scope="module")
def rows(experiment: Experiment) -> pd.DataFrame:
    return fairness.table(evaluated.load(experiment), experiment)


def test_html_shows_every_text_as_text():
    text = Text()
    text.feed(nasty().html)
    assert "script" not in text.tags
    assert "i" not in text.tags
    assert NASTY in text.words
    assert "<script>alert(1)</script>" in text.words
    assert any(NASTY in word for word in text.words if "Caption" in word)


def test_latex_escapes_header_cells_and_caption():
    latex = nasty().latex
    assert r"HR@10\_\%" in latex
    assert r"model\_name" in latex
    assert latex.count(r"R\&B\_1") == 2
    assert r"\$9.99 \#1 \{x\} \textasciitilde{}\textasciicircum{}\textbackslash{}" in latex
    body = re.sub(r"\\[&%$#_{}]", "", latex.split("\\midrule")[1].split("\\bottomrule")[0])
    assert not re.search(r"(?<!\\)[%#_]", body)


def test_greek_letters_become_commands():
    assert latex_text("α β δ λ ω Δ Λ Ω") == (
        r"$\alpha$ $\beta$ $\delta$ $\lambda$ $\omega$ $\Delta$ $\Lambda$ $\Omega$"
    )


def test_committed_latex_holds_only_letters_that_pdflatex_knows():
    files = sorted((paths.figures() / "released").glob("*.tex"))
    assert len(files) > 10
    assert {c for file in files for c in file.read_text("utf-8") if ord(c) > 0x17F} == set()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path, rows, experiment):
    plain = nasty()
    data = plain.data.replace({"椎名": "", "é": "e"}, regex=True)
    parts = [
        Exhibit("nasty", plain.title, "R&B_1 100% $9.99 δ ≤ ×", data).latex,
        tables.table1(rows, experiment).latex,
        tables.two_protocols(rows, rows, experiment).latex,
        tables.table2(rows, experiment).only(benefit="hit").latex,
    ]
    source = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n%s\n\\end{document}\n"
    (tmp_path / "t.tex").write_text(source % "\n".join(parts), encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_csv_reads_back_with_twelve_digits_and_empty_for_undefined():
    value = 0.1234567890123456
    frame = pd.DataFrame(
        {"p": [value, np.nan, 1e-200], "delta": [1e-17, -0.0, -value], "n": [1, 2, 3], "t": ["a,b", '"', ""]}
    )
    lines = list(csv.reader(io.StringIO(Exhibit("x", "X", "c", frame).csv)))
    assert lines == [
        ["p", "delta", "n", "t"],
        ["0.123456789012", "0", "1", "a,b"],
        ["", "0", "2", '"'],
        ["1e-200", "-0.123456789012", "3", ""],
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (float("nan"), ""),
        (pd.NA, ""),
        (True, "True"),
        (np.True_, "True"),
        (3, "3"),
        (np.int64(3), "3"),
        (1 / 3, "0.333333333333"),
        (1e22, "1e+22"),
    ],
)
def test_number_text(value, text):
    assert number_text(value) == text


def test_numbers_for_readers():
    assert decimals(-0.00001, 4) == "0.0000"
    assert decimals(-0.12345, 4) in {"-0.1234", "-0.1235"}
    assert decimals(float("nan"), 2) == ""
    assert decimals(0.04375, 4) == "0.0438"
    assert p_text(0.0004) == "<0.001"
    assert p_text(0.0005) in {"0.001", "<0.001"}
    assert p_text(1.0) == "1.000"
    assert latex_text("a < b") == "a $<$ b"
    assert markdown_text("<b> *x* |") == r"\<b\> \*x\* \|"


def test_a_label_that_the_row_above_has_is_left_out_but_kept_in_a_part():
    shown = pd.DataFrame({"a": ["x", "x", "x"], "b": ["u", "u", "v"], "c": ["1", "1", "1"]})
    exhibit = Exhibit("x", "X", "c", pd.DataFrame({"k": [1, 2, 2]}), shown, labels=2)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", exhibit.html)
    assert cells == ["x", "u", "1", "", "", "1", "", "v", "1"]
    assert re.findall(r"<td[^>]*>([^<]*)</td>", exhibit.only(k=2).html) == ["x", "u", "1", "", "v", "1"]


def test_table2_keeps_its_contract(rows, experiment):
    table = tables.table2(rows, experiment)
    printed = pd.read_csv(paths.published() / "fairevalllm_table2.csv")
    extra = [
        "n1",
        "n2",
        "p_student",
        "p_welch",
        "p_permutation",
        "p_mannwhitney",
        "hedges_g",
        "q",
        "level",
        "printed_agrees",
    ]
    assert list(table.data.columns) == [*printed.columns, *extra]
    head = ["attribute", "notion", "icl", "sampling", "benefit"]
    assert table.data[head].to_numpy().tolist() == printed[head].to_numpy().tolist()
    assert table.data["printed_agrees"].tolist() == [True] * 72


def test_table4_keeps_its_contract(experiment):
    table = tables.table4(fairness.intrinsic(evaluated.load(experiment), experiment), experiment)
    assert list(table.data.columns) == [
        "attribute",
        "sampling",
        "icl",
        "group1",
        "group2",
        "difference",
        "ci_low",
        "ci_high",
        "p_permutation",
        "printed_group1",
        "printed_group2",
        "printed_difference",
    ]
    assert len(table.data) == 18
    printed = pd.read_csv(paths.published() / "fairevalllm_table4.csv")
    assert table.data["printed_group1"].tolist() == printed["group1"].tolist()


def test_figure2_keeps_its_contract_and_leaves_a_gap_where_no_neutral_reply_was_released(rows, experiment):
    both = {"lastfm1k": rows, "ml1m": fairness.table(evaluated.load(experiment, "ml1m"), experiment)}
    figure = charts.figure2(both, experiment)
    assert list(figure.data.columns) == ["dataset", "notion", "sampling", "icl", "delta", "p"]
    assert len(figure.data) == 36
    gaps = figure.data[figure.data["delta"].isna()]
    assert gaps[["dataset", "sampling", "icl"]].drop_duplicates().to_numpy().tolist() == [["ml1m", "random", "0-shot"]]
    assert "no neutral reply was released: MovieLens 1M NSD 0-shot / rand" in figure.caption


def test_agreement_counts_what_agrees_and_names_what_does_not(rows, experiment):
    changed = rows.copy()
    place = changed.index[(changed["attribute"] == "age") & (changed["benefit"] == "rank")][3]
    changed.loc[place, "ssnr"] += 0.0002
    table = tables.table2(changed, experiment)
    assert table.data["printed_agrees"].sum() == 71
    row = table.only(printed_agrees=False)
    assert row.shown["", "agrees"].tolist() == ["no"]
    assert (row.marks == "differs").sum().sum() == 1
    assert row.marks["SSNR", "printed"].tolist() == ["differs"]


@pytest.mark.parametrize("column", ["group1", "group2", "delta", "p", "ssnd", "ssnr"])
def test_each_of_the_six_numbers_is_held_to_its_last_printed_digit(rows, experiment, column):
    digit = 1e-3 if column == "p" else 1e-4
    changed = rows.assign(**{column: rows[column] + digit})
    assert tables.table2(changed, experiment).data["printed_agrees"].sum() == 0


def test_levels_stand_in_the_cell_as_number_and_word(rows, experiment):
    table = tables.table2(rows, experiment)
    for level, cell in zip(table.data["level"], table.shown["", "level"], strict=True):
        assert cell.startswith(f"{level} {fairness.LEVELS[level]}")


def test_no_printed_number_beside_settings_that_the_paper_did_not_use():
    paper = Experiment(dataset="ml1m", protocol="paper", permutations=100, replicates=100)
    rows = fairness.table(evaluated.load(paper), paper)
    table = tables.table2(rows, paper)
    assert table.data["printed_agrees"].isna().all()
    assert {"snsr", "snsv"} <= set(table.data.columns)
    assert not {"ssnd", "ssnr"} & set(table.data.columns)
    assert "printed" not in table.html
    intrinsic = tables.table4(fairness.intrinsic(evaluated.load(paper), paper), paper)
    assert intrinsic.data[["printed_group1", "printed_group2", "printed_difference"]].isna().all().all()


def test_every_caption_names_data_and_protocol():
    for settings in (
        Experiment(permutations=100, replicates=100),
        Experiment(dataset="ml1m", protocol="paper", permutations=100, replicates=100),
    ):
        benefits = evaluated.load(settings)
        rows = fairness.table(benefits, settings)
        noise = fairness.repeat_noise(evaluated.load_repeats(settings), settings)
        intrinsic = fairness.intrinsic(benefits, settings)
        made = [
            tables.replies(benefits, settings),
            tables.table1(rows, settings),
            tables.table2(rows, settings),
            tables.statistics_of_table2(rows, noise, settings),
            tables.table4(intrinsic, settings),
            tables.table4_check(intrinsic, settings),
            tables.bootstrap_test(benefits, settings),
            tables.targets(fairness.targets(benefits, settings), settings),
            charts.figure2(dict.fromkeys(evaluated.datasets(settings), rows), settings),
            charts.forest(rows, settings),
            charts.levels(rows, settings),
            charts.intrinsic_means(benefits, settings),
            charts.deviation_distribution(benefits, settings),
        ]
        other = {"released": "paper", "paper": "released"}[settings.protocol]
        for exhibit in made:
            assert f"Protocol: {settings.protocol}." in exhibit.caption, exhibit.name
            assert f"Protocol: {other}." not in exhibit.caption, exhibit.name


def test_charts_come_out_alike_and_without_a_date(rows, experiment):
    first, second = (charts.levels(rows, experiment) for _ in range(2))
    assert first.svg == second.svg
    assert first.png == second.png
    assert b"<dc:date>" not in first.svg
    assert b"Software" not in first.png
    assert b"attention" in first.svg


def test_a_group_keeps_its_colour_whatever_comes_first(experiment):
    benefits = evaluated.load(experiment)
    backwards = benefits.iloc[::-1].reset_index(drop=True)
    assert charts.intrinsic_means(benefits, experiment).svg == charts.intrinsic_means(backwards, experiment).svg


def test_default_settings_alone_write_to_the_folder_under_version_control(monkeypatch):
    monkeypatch.delenv(paths.FIGURES_VARIABLE, raising=False)
    assert exhibits.folder(Experiment()) == paths.figures() / "released"
    folders = {
        exhibits.folder(Experiment(**change))
        for change in ({"seed": 1}, {"protocol": "paper", "dataset": "ml1m"}, {"alpha": 0.01})
    }
    assert len(folders) == 3
    assert all(folder.is_relative_to(paths.runs()) for folder in folders)


def test_write_is_atomic_and_tells_what_it_wrote(tmp_path, monkeypatch, rows, experiment):
    monkeypatch.setenv(paths.FIGURES_VARIABLE, str(tmp_path))
    written = exhibits.write(experiment, [tables.table1(rows, experiment)])
    assert written.files == ("table1.csv", "table1.html", "table1.tex")
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(written.files)
    bundle = written._repr_mimebundle_()
    assert bundle[fairnb.notebook.WRITTEN_TYPE] == list(written.files)
    before = (tmp_path / "table1.csv").stat().st_mtime_ns
    exhibits.write(experiment, [tables.table1(rows, experiment)])
    assert (tmp_path / "table1.csv").stat().st_mtime_ns == before


def test_write_into_something_that_is_no_folder_is_one_line(tmp_path, monkeypatch, rows, experiment):
    blocked = tmp_path / "file"
    blocked.write_text("mine")
    monkeypatch.setenv(paths.FIGURES_VARIABLE, str(blocked))
    with pytest.raises(FairnbError, match="cannot be written") as error:
        exhibits.write(experiment, [tables.table1(rows, experiment)])
    assert "\n" not in str(error.value)
    assert blocked.read_text() == "mine"


def test_agreement_needs_the_tables_and_says_so(tmp_path, experiment):
    with pytest.raises(DataError, match=r"table2\.csv: no such file; run notebooks 03 and 04 with the same settings"):
        tables.agreement_with_print(tmp_path, experiment)


def test_the_age_rows_of_table4_are_set_against_both_attributes(experiment):
    rows = fairness.intrinsic(evaluated.load(experiment), experiment)
    check = tables.compare_table4(rows, experiment)
    # Shifted by more than any error, no row may be found compatible with anything.
    shifted = tables.compare_table4(rows.assign(mean1=rows["mean1"] + 1), experiment)
    assert set(shifted["within"]) == {"none"}
    assert check.loc[check["attribute"] == "gender", "within"].str.contains("gender").all()
