"""Jaccard: closed forms, properties, and the frame form against the plain one."""

import math

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from fairnb.similarity import jaccard, jaccard_of

LISTS = st.lists(st.integers(0, 6), max_size=6)


def test_closed_forms():
    assert jaccard([1, 2, 3], [3, 2, 1]) == 1
    assert jaccard([1, 2, 3], [4, 5, 6]) == 0
    assert jaccard([1, 2, 3], [1, 2, 4]) == 2 / 4
    assert jaccard([1, 1, 1], [1]) == 1
    assert jaccard([1], []) == 0
    assert math.isnan(jaccard([], []))


@given(LISTS, LISTS)
def test_symmetric_and_in_range(one, other):
    value = jaccard(one, other)
    if one or other:
        assert 0 <= value <= 1
        assert value == jaccard(other, one)
        assert (value == 1) == (set(one) == set(other))


@given(st.lists(LISTS, min_size=1, max_size=6), st.data())
def test_the_frame_form_equals_the_plain_one(lists, data):
    rankings = pd.DataFrame(
        [(reply, item) for reply, items in enumerate(lists) for item in items], columns=["reply", "item"]
    )
    numbers = st.integers(0, len(lists) - 1)
    pairs = data.draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8))
    frame = pd.DataFrame(pairs, columns=["first", "second"], index=range(10, 10 + len(pairs)))
    found = jaccard_of(rankings, frame)
    assert list(found.index) == list(frame.index)
    for value, (first, second) in zip(found, pairs, strict=True):
        expected = jaccard(lists[first], lists[second])
        assert value == expected or (math.isnan(value) and math.isnan(expected))
