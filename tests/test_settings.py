"""Settings: one default, strict types, a folder of its own for every other choice, and files that say what is wrong."""

import json
import math
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from fairnb.errors import ParameterError
from fairnb.settings import (
    BENEFIT_FILES,
    DEFAULT_EXPERIMENTS,
    OPERATIONAL,
    PAPER,
    PROTOCOLS,
    RELEASED,
    SETTINGS_VARIABLE,
    Experiment,
    Plan,
    Protocol,
    load_plan,
    plans,
)

ROOT = Path(__file__).resolve().parents[1]

# --- Experiment ---


def test_the_default_is_the_released_experiment():
    assert Experiment().model_dump() == {
        "name": "released",
        "dataset": "lastfm1k",
        "protocol": "released",
        "released_folder": "",
        "data_folder": "",
        "n_users": 80,
        "min_interactions": 50,
        "max_interactions": 10_000,
        "attributes": "gender,age",
        "missing": "exclude",
        "stratify": "",
        "train_share": 0.8,
        "age_split": "mean",
        "profile_length": 10,
        "context_length": 5,
        "omega": 0.65,
        "recency": "last",
        "template": "fairnb-1",
        "k": 3,
        "example_user": "",
        "alpha": 0.05,
        "small_hit": 0.05,
        "large_hit": 0.1,
        "small_rank": 0.25,
        "large_rank": 0.5,
        "replicates": 1000,
        "permutations": 10_000,
        "min_group": 5,
        "seed": 20240502,
        "simulations": 10_000,
        "curve": "gender NCSD 0-shot recent-frequent hit",
        "replies": "released",
        "model": "",
        "base_url": "",
        "api_key_variable": "OPENAI_API_KEY",
        "system_message": "system",
        "temperature": 0.0,
        "top_p": -1.0,
        "model_seed": -1,
        "max_tokens": 1500,
        "stop": "",
        "reasoning": "ignore",
        "repeats": 1,
        "concurrency": 8,
        "requests_per_minute": 0,
        "tokens_per_minute": 0,
        "timeout": 120.0,
        "retry_seconds": 300.0,
        "price_input": 0.0,
        "price_output": 0.0,
        "store": "",
        "fuzzy": 92.0,
        "min_usable": 0.9,
        "sim_bias": "",
        "sim_gap": "",
        "sim_noise": 0.0,
        "sim_echo": 0.0,
        "sim_invented": 0.0,
        "sim_refusals": "",
        "sim_format": "numbered",
    }
    assert Experiment().is_default
    assert Experiment().slug == "released"
    assert Experiment().rules is RELEASED
    assert Experiment(protocol="paper").rules is PAPER
    assert Experiment().cutoffs == {"hit": (0.05, 0.1), "rank": (0.25, 0.5)}


OTHERS = [
    {"name": "mine"},
    {"dataset": "ml1m"},
    {"protocol": "paper"},
    {"released_folder": "data/mine"},
    {"data_folder": "data/mine"},
    {"n_users": 0},
    {"min_interactions": 20},
    {"max_interactions": 100},
    {"attributes": "gender"},
    {"missing": "keep"},
    {"stratify": "gender"},
    {"train_share": 0.5},
    {"age_split": "24"},
    {"profile_length": 5},
    {"context_length": 3},
    {"omega": 1},
    {"recency": "first"},
    {"template": "released-lastfm"},
    {"k": 1},
    {"example_user": "7"},
    {"alpha": 0.1},
    {"small_hit": 0.01},
    {"large_hit": 0.2},
    {"small_rank": 0.1},
    {"large_rank": 0.6},
    {"replicates": 100},
    {"permutations": 1_000_000},
    {"min_group": 2},
    {"seed": 0},
    {"simulations": 500},
    {"curve": "age NSD ICL-1 random rank"},
    {"replies": "this-run"},
    {"model": "tiny"},
    {"base_url": "http://127.0.0.1:9/v1"},
    {"system_message": "user"},
    {"temperature": -1},
    {"top_p": 0.5},
    {"model_seed": 0},
    {"max_tokens": 16},
    {"stop": "4."},
    {"reasoning": "answer"},
    {"repeats": 2},
    {"price_input": 1},
    {"price_output": 1},
    {"fuzzy": 0},
    {"min_usable": 0.5},
    {"sim_bias": "female=0.1"},
    {"sim_gap": "jazz=0.1"},
    {"sim_noise": 0.1},
    {"sim_echo": 0.1},
    {"sim_invented": 0.1},
    {"sim_refusals": "any=0.1"},
    {"sim_format": "json"},
]
HOW = [
    {"api_key_variable": "MY_KEY"},
    {"concurrency": 2},
    {"requests_per_minute": 10},
    {"tokens_per_minute": 10},
    {"timeout": 1},
    {"retry_seconds": 0},
    {"store": "mine.sqlite"},
]


def test_how_a_run_is_carried_out_changes_no_folder():
    assert {name for values in HOW for name in values} == set(OPERATIONAL)
    assert {Experiment(**values).slug for values in HOW} == {"released"}
    assert all(Experiment(**values).is_default for values in HOW)


def test_a_notebook_takes_what_its_cell_does_not_name_from_its_experiment(tmp_path, monkeypatch):
    named = Experiment.named("sample", k=5)
    assert (named.name, named.dataset, named.model, named.k) == ("sample", "sample-songs", "simulated", 5)
    assert Experiment.named("sample").is_default
    assert not named.is_default
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(Experiment(name="mine", dataset="ml100k", omega=0.5).model_dump()))
    monkeypatch.setenv(SETTINGS_VARIABLE, str(file))
    run = Experiment.named("sample", k=5)
    assert (run.name, run.dataset, run.omega, run.k) == ("mine", "ml100k", 0.5, 5)


def test_any_other_choice_has_another_folder():
    slugs = [Experiment(**values).slug for values in OTHERS]
    assert len({*slugs, "released"}) == len(OTHERS) + 1
    assert not any(Experiment(**values).is_default for values in OTHERS)
    assert {name for values in [*OTHERS, *HOW] for name in values} == set(Experiment.model_fields)
    assert slugs[0].startswith("mine-")
    assert all(slug.startswith("released-") and len(slug) == len("released-12345678") for slug in slugs[1:])


def test_the_folder_is_the_same_in_every_process():
    code = "from fairnb.settings import Experiment; print(Experiment(dataset='ml1m', alpha=0.1).slug)"
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == Experiment(alpha=0.1, dataset="ml1m").slug


def test_a_whole_number_is_a_number():
    assert Experiment(large_hit=1) == Experiment(large_hit=1.0)
    assert Experiment(large_hit=1).slug == Experiment(large_hit=1.0).slug
    assert type(Experiment(large_hit=1).large_hit) is float


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sed": 1}, "sed: unknown setting; known are name, dataset, protocol"),
        ({"seed": "7"}, "seed = '7': input should be a valid integer"),
        ({"seed": 7.0}, "seed = 7.0: input should be a valid integer"),
        ({"seed": True}, "seed = True: input should be a valid integer"),
        ({"seed": -1}, "seed = -1: input should be greater than or equal to 0"),
        ({"alpha": "0.05"}, "alpha = '0.05': input should be a valid number"),
        ({"alpha": True}, "alpha = True: input should be a valid number"),
        ({"alpha": 0}, "alpha = 0.0: input should be greater than 0"),
        ({"alpha": 1}, "alpha = 1.0: input should be less than 1"),
        ({"alpha": math.nan}, "alpha = nan"),
        ({"alpha": None}, "alpha = None"),
        ({"dataset": "ml10m"}, "dataset = 'ml10m': input should be 'lastfm1k', 'ml1m', 'ml100k', 'ml1m-author'"),
        ({"omega": 1.01}, "omega = 1.01: input should be less than or equal to 1"),
        ({"omega": -0.1}, "omega = -0.1: input should be greater than or equal to 0"),
        ({"train_share": 1}, "train_share = 1.0: input should be less than 1"),
        ({"n_users": -1}, "n_users = -1: input should be greater than or equal to 0"),
        ({"missing": "drop"}, "missing = 'drop': input should be 'exclude', 'keep' or 'fill'"),
        ({"age_split": "mean,24"}, "age_split = 'mean,24': expected mean, or one or more rising whole ages"),
        ({"age_split": "34,24"}, "age_split = '34,24': expected mean, or one or more rising whole ages"),
        ({"age_split": "-1"}, "age_split = '-1': expected mean"),
        ({"attributes": "gender,gender"}, "attributes = 'gender,gender': a name stands twice; expected once"),
        ({"attributes": " "}, "attributes is empty; expected one or more columns of the users"),
        ({"stratify": "age,age"}, "stratify = 'age,age': a name stands twice"),
        ({"min_interactions": 60, "max_interactions": 50}, "min_interactions = 60 must not be above max_interactions"),
        ({"temperature": -0.5}, "temperature = -0.5: expected 0 or more, or -1 for not sent"),
        ({"top_p": -0.01}, "top_p = -0.01: expected 0 or more, or -1 for not sent"),
        ({"temperature": 2.1}, "temperature = 2.1: input should be less than or equal to 2"),
        ({"model_seed": -2}, "model_seed = -2: input should be greater than or equal to -1"),
        ({"repeats": 0}, "repeats = 0: input should be greater than or equal to 1"),
        ({"concurrency": 0}, "concurrency = 0"),
        ({"timeout": 0}, "timeout = 0.0: input should be greater than 0"),
        ({"fuzzy": 101}, "fuzzy = 101.0: input should be less than or equal to 100"),
        ({"min_usable": 1.1}, "min_usable = 1.1: input should be less than or equal to 1"),
        ({"sim_noise": -0.1}, "sim_noise = -0.1: input should be greater than or equal to 0"),
        ({"system_message": "System"}, "system_message = 'System': input should be 'system', 'user' or 'none'"),
        ({"api_key_variable": "sk-123"}, "api_key_variable: expected the name of an environment variable"),
        ({"replies": ""}, "replies = ''"),
        ({"k": 0}, "k = 0: input should be greater than or equal to 1"),
        ({"protocol": "Paper"}, "protocol = 'Paper': input should be 'released' or 'paper'"),
        ({"released_folder": Path("x")}, "released_folder = "),
        ({"replicates": 99}, "replicates = 99: input should be greater than or equal to 100"),
        ({"replicates": 1_000_001}, "replicates = 1000001: input should be less than or equal to 1000000"),
        ({"permutations": 99}, "permutations = 99"),
        ({"permutations": 1_000_001}, "permutations = 1000001"),
        ({"min_group": 1}, "min_group = 1: input should be greater than or equal to 2"),
        ({"small_hit": 0.1}, "small_hit = 0.1 must be below large_hit = 0.1"),
        ({"large_rank": 0.1}, "small_rank = 0.25 must be below large_rank = 0.1"),
        ({"small_hit": 0}, "small_hit = 0.0: input should be greater than 0"),
        *(({"name": name}, f"name = {name!r}") for name in ("", "A", "a/b", "..", "-a", "a b", "a\n", "ä")),
    ],
)
def test_a_setting_that_does_not_fit_is_one_line_with_field_and_value(values, words):
    with pytest.raises(ParameterError) as error:
        Experiment(**values)
    assert str(error.value).startswith(words)
    assert "\n" not in str(error.value)


def test_settings_cannot_be_changed_afterwards():
    with pytest.raises(ValidationError):
        Experiment().seed = 1
    with pytest.raises(ValidationError):
        PAPER.test = "welch"


# --- Protocols ---


def test_the_two_protocols_differ_in_every_choice_and_both_are_named():
    paper, released = PAPER.model_dump(), RELEASED.model_dump()
    assert [field for field in paper if paper[field] == released[field]] == []
    assert PROTOCOLS == {"released": RELEASED, "paper": PAPER}
    assert {protocol for _, protocol in BENEFIT_FILES} == set(PROTOCOLS)


def test_a_protocol_says_in_its_docstring_what_each_choice_means():
    for field, info in Protocol.model_fields.items():
        assert f"    {field} : " in (Protocol.__doc__ or "")
        for choice in getattr(info.annotation, "__args__", ()):
            assert f'"{choice}"' in (Protocol.__doc__ or "")


def test_every_setting_is_explained():
    for field in Experiment.model_fields:
        assert field in (Experiment.__doc__ or "")


def test_a_protocol_needs_every_choice_and_takes_no_other():
    whole = PAPER.model_dump()
    for field in whole:
        with pytest.raises(ValidationError, match=field):
            Protocol(**{name: value for name, value in whole.items() if name != field})
    with pytest.raises(ValidationError, match="tset"):
        Protocol(**whole, tset="welch")
    with pytest.raises(ValidationError, match="'student' or 'welch'"):
        Protocol(**{**whole, "test": "t"})


# --- Plans ---


def test_the_shipped_plans_are_whole():
    assert "released" in plans()
    for name in plans():
        plan = load_plan(name)
        assert plan.name == name
        for notebook in plan.notebooks:
            assert (ROOT / "notebooks" / f"{notebook}.ipynb").is_file()
    run = {notebook for name in DEFAULT_EXPERIMENTS for notebook in load_plan(name).notebooks}
    assert sorted(run) == sorted(file.stem for file in (ROOT / "notebooks").glob("*.ipynb"))
    assert load_plan("released").parameters == {}
    sample = load_plan("sample").parameters
    assert (sample["dataset"], sample["model"], sample["replies"]) == ("sample-songs", "simulated", "this-run")
    example = tomllib.loads((ROOT / "fairnb" / "example.toml").read_text("utf-8"))
    assert Plan(**example).notebooks == load_plan("sample").notebooks
    assert Experiment(name=example["name"], **example["parameters"]).replies == "this-run"


def test_the_sample_is_a_default_experiment_as_it_comes_and_no_other_of_that_name():
    plain = load_plan("sample").parameters
    assert Experiment(name="sample", **plain).is_default
    assert Experiment(name="sample", **plain).slug == "sample"
    for values in ({"dataset": "sample-films"}, {"dataset": "lastfm1k"}, {"seed": 1}, {"sim_bias": ""}):
        assert not Experiment(name="sample", **{**plain, **values}).is_default


def test_lists_of_attributes_are_read():
    assert Experiment().stated == ("gender", "age")
    assert Experiment(attributes=" gender , country ").stated == ("gender", "country")
    assert Experiment().strata == ()
    assert Experiment().cutoff_ages is None
    assert Experiment(age_split="24, 34").cutoff_ages == (24, 34)
    assert Experiment(stratify="gender").strata == ("gender",)


GOOD = (
    'name = "x"\ntitle = "t"\nparameters = {alpha = 0.1, seed = 7, dataset = "ml1m"}\n[notebooks]\na = []\nb = ["a"]\n'
)


def test_a_plan_from_a_file_keeps_the_types_of_its_values(tmp_path, monkeypatch):
    (tmp_path / "my plan.toml").write_text(GOOD)
    plan = load_plan(str(tmp_path / "my plan.toml"))
    assert plan == Plan(**tomllib.loads(GOOD))
    assert [type(value) for value in plan.parameters.values()] == [float, int, str]
    monkeypatch.chdir(tmp_path)
    assert load_plan("my plan.toml") == plan


def test_the_name_of_a_shipped_plan_wins_over_a_file_of_that_name(tmp_path, monkeypatch):
    (tmp_path / "released").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert load_plan("released").name == "released"
    assert load_plan("./released").name == "x"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[notebooks]", "[notebook]", "notebooks: missing; add it"),
        ('title = "t"', "", "title: missing; add it"),
        ('title = "t"', "title = 3", "title = 3: input should be a valid string"),
        (
            'title = "t"',
            'title = "t"\nmodel = "m"',
            "model: unknown setting; known are name, title, notebooks, parameters",
        ),
        ('"x"', '"X y"', "name = 'X y': expected small letters, digits and hyphens"),
        ("a = []", 'a = "b"', "notebooks.a = 'b': input should be a valid list"),
        ('["a"]', "[1]", "notebooks.b.0 = 1: input should be a valid string"),
        ('["a"]', '["c"]', "notebook b needs c, which the plan does not run"),
        ("a = []", 'a = ["b"]', "notebooks wait for each other: ['a', 'b']"),
        ("a = []", "a = [", "not valid TOML: "),
        ("a = []", "a = []\na = []", "not valid TOML: "),
    ],
)
def test_a_fault_in_a_file_is_told_in_one_line_with_the_file(tmp_path, old, new, words):
    file = tmp_path / "x.toml"
    assert old in GOOD
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(ParameterError) as error:
        load_plan(str(file))
    assert str(error.value).startswith(f"{file}: {words}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["", "relased", "/", "..", "a\0b"])
def test_what_is_neither_a_name_nor_a_file_is_told_with_the_names(name):
    with pytest.raises(
        ParameterError,
        match=r"no such experiment; (?:did you mean \w+\? )?expected one of .*released, sample, audit, or a \.toml file",
    ):
        load_plan(name)


def test_a_binary_file_is_told(tmp_path):
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ParameterError, match="not a text file in UTF-8"):
        load_plan(str(tmp_path / "x.toml"))
