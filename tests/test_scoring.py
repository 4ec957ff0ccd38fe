"""From replies to benefits, worked by hand: two users, one scenario, every kind of reply."""

import pandas as pd
import pytest

from fairnb import scoring
from fairnb.settings import PAPER, RELEASED, Experiment

ITEMS = pd.DataFrame(
    {
        "item_id": [1, 2, 3, 4, 2**60 + 1],
        "title": ["Heat (1995)", "Alien (1979)", "Jaws (1975)", "Fargo (1996)", "Big (1988)"],
    }
)
INTERACTIONS = pd.DataFrame(
    [("u", 1, 1, "train"), ("u", 2, 2, "test"), ("u", 2**60 + 1, 3, "test"), ("v", 3, 1, "train"), ("v", 4, 2, "test")],
    columns=["user_id", "item_id", "timestamp", "part"],
)
USERS = pd.DataFrame({"user_id": ["u", "v"], "gender": ["Female", None], "age_group": ["Young", "Old"]})


def grid_of(rows):
    columns = ["user_id", "prompt_id", "counterfactual", "demographics", "ranker", "value"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(sampling="random", icl="0-shot", text=frame["prompt_id"] + " text")


GRID = grid_of(
    [
        ("u", "n", "no", "none", "neutral", ""),
        ("u", "s", "no", "gender", "sensitive", "Female"),
        ("u", "n", "yes", "none", "neutral", ""),
        ("u", "c", "yes", "gender", "counterfactual", "Male"),
        ("v", "w", "no", "none", "neutral", ""),
        ("v", "w", "yes", "none", "neutral", ""),
    ]
)
EXPERIMENT = Experiment(k=3, repeats=2, fuzzy=0)


def replies_of(**texts):
    rows = []
    for name, (status, text) in texts.items():
        prompt, _, repeat = name.partition("_")
        rows.append((prompt, int(repeat or 0), "m", status, text, "stop", 1, 1, ""))
    columns = ["prompt_id", "repeat", "model", "status", "text", "finish_reason", "prompt_tokens"]
    return pd.DataFrame(rows, columns=[*columns, "completion_tokens", "error"])


REPLIES = replies_of(
    n=("answered", "1. Heat (1995)\n2. Big (1988)\n3. Nonsuch of Nowhere (1961)"),
    n_1=("answered", "1. Alien (1979)\n2. Alien\n3. Big"),
    s=("answered", "I'm sorry, but I cannot recommend anything based on gender."),
    c=("timeout", ""),
    w=("answered", "1. Fargo\n2. Jaws\n3. Heat"),
)


@pytest.fixture(scope="module")
def ranked():
    return scoring.rank(EXPERIMENT, REPLIES, GRID, ITEMS, INTERACTIONS)


def test_every_reply_has_a_row_and_a_status(ranked):
    lists, rankings = ranked
    found = {(row.prompt_id, row.repeat): row.status for row in lists.itertuples()}
    assert found == {
        ("n", 0): "ok",
        ("n", 1): "ok",
        ("s", 0): "refused",
        ("c", 0): "timeout",
        ("w", 0): "ok",
        ("w", 1): "not_asked",
    }
    counts = lists.set_index(["prompt_id", "repeat"])
    assert counts.loc[("n", 0), ["n_items", "n_matched", "n_history", "n_invented"]].tolist() == [3, 2, 1, 1]
    assert counts.loc[("n", 1), "n_repeated"] == 1
    assert counts.loc[("s", 0), ["n_items", "n_matched", "n_history", "n_invented"]].tolist() == [0, 0, 0, 0]
    assert set(rankings["reply"]) == set(lists.loc[lists["status"] == "ok", "reply"])
    # An id of 61 bits comes through whole.
    assert 2**60 + 1 in set(rankings["item_id"].dropna())


def test_held_out_items_once_and_train_items_each(ranked):
    lists, rankings = ranked
    paper = scoring.score(lists, rankings, GRID, USERS, INTERACTIONS, 3, PAPER)
    one = paper.set_index(["user", "counterfactual", "demographics", "repeat"]).sort_index()
    assert one.loc[("u", "no", "none", 0), ["hits", "average_rank"]].tolist() == [1, 2.0]
    # The repeated film is taken out and the next one moves up.
    assert one.loc[("u", "no", "none", 1), ["hits", "average_rank"]].tolist() == [2, 1.5]
    assert one.loc[("u", "no", "gender", 0), "status"] == "refused"
    assert one.loc[("u", "yes", "gender", 0), ["status", "stated"]].tolist() == ["timeout", "Male"]
    assert one.loc[("v", "no", "none", 0), "hits"] == 1
    released = scoring.score(lists, rankings, GRID, USERS, INTERACTIONS, 3, RELEASED)
    two = released.set_index(["user", "counterfactual", "demographics", "repeat"]).sort_index()
    assert two.loc[("u", "no", "none", 0), ["hits", "average_rank"]].tolist() == [1, 1.0]
    assert two.loc[("v", "no", "none", 0), ["hits", "average_rank"]].tolist() == [1, 2.0]
    assert two.loc[("u", "no", "gender", 0), "average_rank"] == 0


def test_a_row_per_condition_and_per_repeat(ranked):
    lists, rankings = ranked
    paper = scoring.score(lists, rankings, GRID, USERS, INTERACTIONS, 3, PAPER)
    assert len(paper[paper["repeat"] == 0]) == len(GRID)
    again = paper[paper["repeat"] > 0]
    assert again["demographics"].eq("none").all()
    assert again["counterfactual"].eq("no").all()
    assert len(again) == 2
    assert paper.loc[paper["user"] == "v", "gender"].isna().all()


def test_the_ground_truth_is_the_part_that_the_protocol_names():
    assert scoring.truth(INTERACTIONS, PAPER)["item_id"].tolist() == [2, 2**60 + 1, 4]
    assert scoring.truth(INTERACTIONS, RELEASED)["item_id"].tolist() == [1, 3]
