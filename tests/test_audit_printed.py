"""Printed tables as people type them: what is read, what is remarked on, and what is refused in one line."""

import math

import pytest

from fairnb.audit.printed import read
from fairnb.errors import DataError


@pytest.fixture
def typed(tmp_path):
    """Write a file and read it."""

    def run(text, roles=None, encoding="utf-8"):
        file = tmp_path / "table.csv"
        file.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return read(file, roles)

    return run


def refusal(typed, *arguments, **options):
    with pytest.raises(DataError) as caught:
        typed(*arguments, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert "table.csv" in message or message.startswith("role ")
    return message


def remark(printed, words):
    found = [text for text in printed.remarks if words in text]
    assert len(found) == 1, printed.remarks
    return found[0]


def test_a_plain_table(typed):
    printed = typed("setting,Group 1,group_2,Δ,p-value,n1,n_2,SSNR\nhit,0.10,-0.020,0.120,0.730,45,35,0.5\n")
    assert list(printed.numbers) == ["group1", "group2", "delta", "p", "n1", "n2", "ssnr"]
    assert printed.numbers.iloc[0].tolist() == [0.10, -0.02, 0.12, 0.73, 45, 35, 0.5]
    assert printed.places.iloc[0].tolist() == [2, 3, 3, 3, 0, 0, 1]
    assert list(printed.labels) == ["setting"]
    assert printed.lines == [2]
    assert printed.names["group1"] == "Group 1"


@pytest.mark.parametrize(
    ("cell", "value", "places"),
    [
        ("−0.0116", -0.0116, 4),
        ("–0.5", -0.5, 1),
        ("- 0.5", -0.5, 1),
        ("+0.25", 0.25, 2),
        (".730", 0.73, 3),
        ("0.012*", 0.012, 3),
        ("0.012**", 0.012, 3),
        ("0.012 †", 0.012, 3),
        ("0.3 ± 0.12", 0.3, 1),
        ("0.31 +/- 0.12", 0.31, 2),
        ("0.31 (0.12)", 0.31, 2),
        ("12.5%", 12.5, 1),
        ("12.5 %", 12.5, 1),
        ('"1,234.5"', 1234.5, 1),
        ("1 234", 1234, 0),
        ("1\u202f234.25", 1234.25, 2),
        ("1.2e-3", 0.0012, 4),
        ("12", 12, 0),
    ],
)
def test_a_cell_and_its_places(typed, cell, value, places):
    printed = typed(f"group1,group2\n{cell},0\n")
    assert printed.numbers["group1"].tolist() == [value]
    assert printed.places["group1"].tolist() == [places]


@pytest.mark.parametrize("cell", ["", "-", "–", "NA", "n.s.", "nan"])
def test_nothing_printed_is_missing_and_counted_per_column(typed, cell):
    printed = typed("group1,group2,p\n1,2,0.5\n" + f"1,2,{cell}\n" * 7)
    assert printed.numbers["p"].isna().tolist() == [False] + [True] * 7
    assert printed.places["p"].isna().tolist() == [False] + [True] * 7
    assert remark(printed, "column p") == (
        "column p: nothing printed in 7 cells; taken as missing (lines 3, 4, 5, 6, 7 and 2 more)"
    )


def test_a_bound_on_p_is_missing_and_said_so(typed):
    printed = typed("group1,group2,p\n1,2,<0.001\n1,2,0.02\n")
    assert math.isnan(printed.numbers["p"][0])
    assert "1 cell give a bound" in remark(printed, "bound")
    assert "line 2" in remark(printed, "bound")


def test_p_beside_delta(typed):
    printed = typed('group1,group2,delta\n1,0,0.0116 (p=0.730)\n1,0,"0.5, p < 0.001"\n1,0,0.25\n')
    assert printed.numbers["delta"].tolist() == [0.0116, 0.5, 0.25]
    assert printed.numbers["p"][0] == 0.73
    assert printed.numbers["p"][1:].isna().all()
    assert printed.places["p"][0] == 3
    both = typed("group1,group2,delta,p\n1,0,0.1 (p=0.7),\n1,0,0.1 (p=0.7),0.6\n")
    assert both.numbers["p"].tolist() == [0.7, 0.6]


def test_percent_is_kept_in_percent_and_told(typed):
    printed = typed("group1,group2,ssnr\n12.5%,10.0%,0.3\n8.0%,10.5%,0.2\n")
    assert printed.percent == ("group1", "group2")
    assert printed.numbers["group1"].tolist() == [12.5, 8.0]
    assert "column group1: 2 cells with a percent sign; kept in percent" in remark(printed, "group1")
    assert typed("group1 (%),group2\n12.5,0.1\n", {"group1": "group1 (%)"}).percent == ("group1",)


def test_thousands_separators_are_told(typed):
    assert "1 cell with thousands separators" in remark(typed('group1,group2\n"1,234.5",2.0\n'), "thousands")


def test_semicolons_with_decimal_commas(typed):
    printed = typed('name;group1;group2;p\n"a;b";0,0116;-0,5;0,730\nc;1,234;1.234,5;1,5e-3\n')
    assert printed.numbers["group1"].tolist()[0] == 0.0116
    assert math.isnan(printed.numbers["group1"][1])
    assert printed.numbers["group2"].tolist() == [-0.5, 1234.5]
    assert printed.places["p"].tolist() == [3, 4]
    assert "(line 3)" in remark(printed, "two ways")
    assert printed.labels["name"].tolist() == ["a;b", "c"]


def test_a_point_is_ambiguous_only_beside_decimal_commas(typed):
    assert typed("group1;group2\n1.234;2.5\n").numbers["group1"].tolist() == [1.234]
    assert typed("group1;group2\n1.234;2,5\n").numbers["group1"].isna().all()


def test_tabs(typed):
    assert typed("group1\tgroup2\n0,5\t1.5\n").numbers.iloc[0].tolist() == [0.5, 1.5]


def test_places_where_trailing_zeros_were_lost_and_where_they_were_kept(typed):
    lost = typed("group1,group2\n0.0,1\n-0.019,1\n0.1234,1\n")
    assert lost.places["group1"].tolist() == [4, 4, 4]
    assert "1 to 4 decimals; trailing zeros are taken as lost" in remark(lost, "group1")
    kept = typed("group1,group2\n0.50,1\n0.1234,1\n")
    assert kept.places["group1"].tolist() == [2, 4]
    assert "each as printed" in remark(kept, "group1")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_that_say_what_they_are(typed, encoding):
    printed = typed("méthode,group1,group2,δ\nÉlan,1,2,−1\n", encoding=encoding)
    assert printed.labels["méthode"].tolist() == ["Élan"]
    assert printed.numbers["delta"].tolist() == [-1]
    assert printed.remarks == ["column δ is read as delta"]


def test_latin_1_is_read_with_a_remark(typed):
    printed = typed("label,group1,group2\nabc,1,2\nÉlan,1,2\n", encoding="latin-1")
    assert printed.labels["label"].tolist() == ["abc", "Élan"]
    assert "line 3 is not UTF-8" in remark(printed, "Latin-1")


@pytest.mark.parametrize(
    "content",
    [
        b"group1,group2\n1,\x002\n",
        b"\x89PNG\r\n\x1a\n",
        b"PK\x03\x04\x14\x00",
        b"\xff\xfea",
        b"group1\x81,group2\n1,2\n",
    ],
)
def test_a_binary_file_is_refused(typed, content):
    assert "not a text" in refusal(typed, content)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty; expected a header and a line per printed row"),
        ("\n \n", "empty"),
        ("group1,group2\n,\n", "no row below the header"),
        ("a,b\n1,2\n", "no column reads as a group's mean; expected two of the columns a, b"),
        ("group1,b\n1,2\n", "only group1 reads as the mean of a group"),
        ("group1,group3\n1,2\n", "none as group2"),
        ("group1,group2\nMale,Female\n", "no column reads as a group's mean"),
        ("group1,group2,Group1\n1,2,3\n", "column group1 stands 2 times"),
        ("group1,mean1,group2\n1,2,3\n", "columns group1 and mean1 both read as group1"),
        ("group1,group2\n1,2\n\n1,2,3\n", "line 4: 3 cells; expected 2"),
        ('group1,group2\n1,"2\n', "line 2: not a CSV file"),
    ],
)
def test_what_is_no_table_is_refused(typed, text, words):
    message = refusal(typed, text)
    assert words in message
    if "line" not in words and "stands" not in words:
        assert "--role group1=COLUMN" in message


def test_no_such_file(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv: no such file"):
        read(tmp_path / "none.csv")


def test_roles_name_columns_that_names_do_not_tell(typed):
    text = "metric,Max,Min,SNSR,SNSV\nx,0.7,0.6,0.1,0.04\n"
    printed = typed(text, {"group1": "max", "group2": "Min", "delta": "SNSR"})
    assert list(printed.numbers) == ["group1", "group2", "delta", "snsv"]
    assert remark(printed, "Min") == "column Min is read as group2"
    assert "role group1 names column Most, which is not there" in refusal(typed, text, {"group1": "Most"})
    assert "not a column of numbers, which group1 must be" in refusal(typed, text, {"group1": "metric"})
    assert "column Max has two roles" in refusal(typed, text, {"group1": "Max", "group2": "Max"})
    assert "role grup1: unknown" in refusal(typed, text, {"grup1": "Max"})


def test_a_role_goes_before_a_name(typed):
    printed = typed("group1,group2,a\n1,2,3\n", {"group1": "a"})
    assert printed.numbers["group1"].tolist() == [3]
    assert printed.names["group2"] == "group2"


def test_groups_of_people_are_numbered_in_the_order_of_the_file(typed):
    printed = typed("x,Female,Male,n_male,n female\na,0.1,0.2,30,40\n")
    assert printed.numbers[["group1", "group2", "n1", "n2"]].iloc[0].tolist() == [0.1, 0.2, 40, 30]


def test_a_column_without_anything_is_left_out(typed):
    printed = typed("group1,group2,p\n1,2,\n1,2,\n")
    assert "p" not in printed.numbers
    assert "p" not in printed.labels
    assert printed.remarks == ["column p: nothing printed; left out"]


def test_a_cell_that_is_no_number_in_a_column_of_numbers_is_left_out(typed):
    printed = typed("group1,group2\n0.5,1\nsee text,1\n0.7,1\n")
    assert printed.numbers["group1"].isna().tolist() == [False, True, False]
    assert remark(printed, "group1") == "column group1: 1 cell could not be read as a number; left out (line 3)"


def test_three_groups(typed):
    assert list(typed("group1,group2,group3\n1,2,3\n").numbers) == ["group1", "group2", "group3"]
