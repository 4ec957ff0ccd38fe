"""What is asked of a model: each text once, repeats of neutral ones, nothing twice, nothing that a label decides."""

import ast
import json
from pathlib import Path

import pandas as pd
import pytest

from fairnb import frames, generation, paths, profiles
from fairnb.errors import FairnbError, ParameterError
from fairnb.llm.request import Request
from fairnb.llm.store import Store, export, reply_to
from fairnb.settings import Experiment

ROOT = Path(__file__).resolve().parents[1]
REAL = {"model": "tiny", "base_url": "http://127.0.0.1:9/v1"}


def experiment(**values):
    return Experiment.named("sample", **{"n_users": 6, **values})


@pytest.fixture(scope="module")
def grid():
    one = experiment()
    return generation.grid_for(one, profiles.select_for(one, profiles.open_data(one)))


def test_each_text_is_asked_once_and_neutral_ones_again(grid):
    requests = generation.requests_for(experiment(repeats=3), grid)
    neutral = set(grid.loc[grid["ranker"] == "neutral", "prompt_id"])
    assert len(grid) == 6 * 72
    assert len(neutral) == 6 * 9
    assert len(requests) == grid["prompt_id"].nunique() + 2 * len(neutral)
    assert len({request.key for request in requests}) == len(requests)
    assert {request.repeat for request in requests if request.prompt_id not in neutral} == {0}
    assert {request.repeat for request in requests if request.prompt_id in neutral} == {0, 1, 2}
    # A run that ends early holds whole users.
    owner = grid.drop_duplicates("prompt_id").set_index("prompt_id")["user_id"]
    users = [owner[request.prompt_id] for request in requests]
    assert users == sorted(users, key=list(dict.fromkeys(users)).index)


def test_the_template_s_system_message_goes_where_the_setting_says(grid):
    system, user, none = (
        generation.requests_for(experiment(system_message=place), grid)[0].messages
        for place in ("system", "user", "none")
    )
    text = grid["text"].iloc[0]
    assert [message["role"] for message in system] == ["system", "user"]
    assert user == [{"role": "user", "content": f"{system[0]['content']}\n\n{text}"}]
    assert none == [{"role": "user", "content": text}]


def test_what_the_store_holds_is_not_asked_again_and_failures_only_on_request(grid, tmp_path):
    one = experiment(**REAL)
    requests = generation.requests_for(one, grid)
    with Store(tmp_path / "replies.sqlite") as store:
        store.add([reply_to(requests[0], "answered", text="1. A"), reply_to(requests[1], "timeout", error="slow")])
        plan = generation.plan_for(one, grid, store)
        assert (plan.conditions, plan.texts) == (len(grid), grid["prompt_id"].nunique())
        assert plan.to_ask() == requests[2:]
        assert plan.to_ask(retry=True) == requests[1:]
        frame = generation.replies_frame(one, plan, store)
    assert frame["status"].iloc[:3].tolist() == ["answered", "timeout", "not_asked"]
    assert generation.missing(frame) == {"timeout": 1, "not_asked": len(requests) - 2}
    assert list(frame.columns) == list(frames.SCHEMAS["replies"])


def test_reasoning_is_an_answer_only_if_the_reader_says_so(grid, tmp_path):
    requests = generation.requests_for(experiment(**REAL), grid)
    with Store(tmp_path / "replies.sqlite") as store:
        store.add([reply_to(requests[0], "empty_content", reasoning="1. A", error="no text")])
        found = {}
        for choice in ("ignore", "answer"):
            one = experiment(**REAL, reasoning=choice)
            row = generation.replies_frame(one, generation.plan_for(one, grid, store), store).iloc[0]
            found[choice] = (row["status"], row["text"])
    assert found == {"ignore": ("empty_content", ""), "answer": ("answered", "1. A")}


def test_the_estimate_of_costs_is_of_what_is_to_be_asked(grid):
    one = experiment(**REAL, price_input=2.0, price_output=10.0, max_tokens=20)
    plan = generation.plan_for(one, grid)
    estimate = plan.estimate(one)
    assert estimate["calls"] == len(plan.requests)
    assert estimate["completion_tokens"] == 20 * len(plan.requests)
    assert estimate["cost"] == pytest.approx((2 * estimate["prompt_tokens"] + 10 * estimate["completion_tokens"]) / 1e6)
    characters = sum(len(message["content"]) for request in plan.requests for message in request.messages)
    assert 0.2 * characters < estimate["prompt_tokens"] < 0.4 * characters


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model": ""}, "model is empty"),
        ({"model": "tiny"}, "model = 'tiny': base_url is empty"),
        ({"model": "tiny", "base_url": "not an address"}, "base_url: not an address"),
        ({"sim_bias": "female"}, "sim_bias"),
        ({"sim_gap": "jazz=2"}, "sim_gap"),
        ({"sim_format": "prose"}, "sim_format"),
    ],
)
def test_a_setting_of_the_model_that_does_not_fit_is_one_line(values, words):
    with pytest.raises(ParameterError) as error:
        generation.check(experiment(**values))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_an_exported_file_is_replayed_without_server_and_key(grid, tmp_path, monkeypatch):
    one = experiment(**REAL)
    requests = generation.requests_for(one, grid)
    with Store(tmp_path / "replies.sqlite") as store:
        store.add([reply_to(request, "answered", text=f"1. Title {n}") for n, request in enumerate(requests)])
        assert export(store, tmp_path / "all.jsonl") == len(requests)
    lines = (tmp_path / "all.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "part.jsonl").write_text("".join(lines[1:]))
    monkeypatch.setattr(generation.client, "ask", lambda *_, **__: pytest.fail("asked"))
    with Store(tmp_path / "all.jsonl") as store:
        plan = generation.plan_for(one, grid, store)
        assert generation.ask(one, plan, store).wanted == 0
        assert generation.replies_frame(one, plan, store)["status"].eq("answered").all()
    with Store(tmp_path / "part.jsonl") as store, pytest.raises(FairnbError, match="an exported file is only read"):
        generation.ask(one, generation.plan_for(one, grid, store), store)


def test_a_store_that_cannot_be_written_is_found_before_anything_is_asked(grid, tmp_path, monkeypatch):
    one = experiment(**REAL)
    monkeypatch.setattr(generation.client, "ask", lambda *_, **__: pytest.fail("asked"))
    monkeypatch.setattr(generation.client, "models", lambda *_: pytest.fail("asked"))
    with Store(tmp_path / "replies.sqlite") as store:
        store._db.execute("PRAGMA query_only = ON")
        with pytest.raises(FairnbError, match=r"replies\.sqlite: .*readonly"):
            generation.ask(one, generation.plan_for(one, grid, store), store)


def test_the_simulated_recommender_answers_the_same_every_time(grid):
    one, again = (generation.simulate(experiment(repeats=2), grid) for _ in range(2))
    pd.testing.assert_frame_equal(one, again)
    assert one["status"].eq("answered").all()


def test_what_talks_to_the_model_knows_no_labels():
    # Whoever decides to ask again must not know what a right answer is.
    for module in ("client", "responses", "request", "store", "server", "simulated"):
        tree = ast.parse((ROOT / "fairnb" / "llm" / f"{module}.py").read_text("utf-8"))
        names = {
            name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        }
        for forbidden in ("benefits", "scoring", "fairness", "profiles", "matching", "fairnb.frames"):
            assert not any(forbidden in name for name in names), (module, forbidden)


def test_a_request_holds_the_prompt_and_the_sampling_and_nothing_else():
    request = Request("id", "text", "system", "http://h/v1", "m", seed=1, stop="\n", repeat=2)
    assert json.dumps(request.fields, sort_keys=True) == json.dumps(
        {
            "base_url": "http://h/v1",
            "max_tokens": 1500,
            "messages": [{"role": "system", "content": "system"}, {"role": "user", "content": "text"}],
            "model": "m",
            "repeat": 2,
            "seed": 1,
            "stop": ["\n"],
            "temperature": 0.0,
        },
        sort_keys=True,
    )


def test_the_store_is_in_runs_unless_named():
    assert generation.store_file(experiment()) == paths.runs() / "replies.sqlite"
    assert generation.store_file(experiment(store="/tmp/x.sqlite")) == Path("/tmp/x.sqlite")
