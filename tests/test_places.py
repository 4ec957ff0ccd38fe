"""Lists as words: a word gives the benefits that the list itself gives, under every rule."""

from itertools import product

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairnb import benefits, places, released
from fairnb.errors import DataError
from fairnb.settings import PAPER, RELEASED

RULES = [
    RELEASED.model_copy(update={"repeated_ids": repeated, "rank_without_hit": empty, "rank_list": part})
    for repeated, empty, part in product(("each", "once"), ("zero", "undefined"), ("whole", "first-k"))
]


def test_a_word_has_a_letter_for_each_place():
    assert places.spell(["a", "b", "a", None, "b", None, "c"], {"a", "c"}) == "hmH-M-h"
    assert places.spell([], {"a"}) == ""


@given(st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=6), st.sets(st.integers(0, 5)), st.integers(1, 4))
def test_a_word_gives_what_its_list_gives(ranking, truth, k):
    matched = [(7, place, item) for place, item in enumerate(ranking, start=1) if item is not None]
    rankings = pd.DataFrame(matched, columns=["reply", "rank", "item_id"], dtype="int64")
    known = pd.DataFrame({"user_id": 1, "item_id": sorted(truth)}, dtype="int64")
    replies = pd.DataFrame({"reply": [7], "user_id": [1]})
    word = places.words(rankings, known, replies)
    for rules in RULES:
        expected = benefits.benefits(rankings, known, replies, k, rules).iloc[0]
        found = places.benefits(word, k, rules).iloc[0]
        assert found["hits"] == expected["hits"]
        assert found["average_rank"] == pytest.approx(expected["average_rank"], nan_ok=True)


@pytest.mark.parametrize(
    ("dataset", "rules", "way"),
    [("lastfm1k", RELEASED, "ids_file"), ("ml1m", RELEASED, "ids_file"), ("ml1m", PAPER, "titles_heldout")],
)
def test_the_bundled_words_give_the_bundled_benefits(dataset, rules, way):
    words, table = released.read_places(dataset), released.read_benefits(dataset, rules.name)
    assert words[released.PLACES_KEY].equals(table[released.PLACES_KEY])
    found = places.benefits(words[way], 3, rules)
    assert found["hits"].tolist() == table["hits"].tolist()
    assert found["average_rank"].tolist() == pytest.approx(table["average_rank"].tolist(), nan_ok=True)


def test_a_letter_that_is_none_is_named():
    with pytest.raises(DataError, match="'hx' is no word of the letters hHmM-"):
        places.benefits(pd.Series(["hm", "hx"]), 3, RELEASED)
