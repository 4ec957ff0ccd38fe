"""Settings: what an experiment is, and the two protocols by which a reply becomes a number."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import tomllib
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fairnb.errors import ParameterError
from fairnb.seeds import ROOT_SEED

DATASETS = ("lastfm1k", "ml1m")
# The experiments whose exhibits are under version control.
DEFAULT_EXPERIMENTS = ("released", "sample", "audit")
SAMPLINGS = ("random", "frequent", "recent-frequent")
ICLS = ("0-shot", "ICL-1", "ICL-2")
BENEFITS = ("hit", "rank")
NOTIONS = ("NSD", "NCSD")
SIMULATED = "simulated"
# Where the runner of notebooks leaves all settings for those that a notebook's cell does not name.
SETTINGS_VARIABLE = "FAIRNB_SETTINGS"
# How a run is carried out; none of these changes what is asked or what comes out.
OPERATIONAL = (
    *("api_key_variable", "concurrency", "requests_per_minute", "tokens_per_minute", "timeout", "retry_seconds"),
    "store",
)


class Protocol(BaseModel):
    """How replies become benefits, deviations and p-values.

    A protocol is a value: pass it, compare it, copy it with one field changed
    (``PAPER.model_copy(update={"test": "welch"})``). Nothing reads a protocol from anywhere else.

    Attributes
    ----------
    name : str
        The word used in captions. A changed copy deserves a new name.
    ground_truth : {"held-out", "file"}
        The user's held-out last 20 % of interactions, or the ids in the released file's
        ground-truth column (for ML-1M these are the 80 % of training items; in runs of your own it is the
        train part).
    matching : {"exact-title", "file-ids"}
        Titles matched to the catalogue exactly after normalising, or the ids the author's matcher gave.
        In runs of your own titles are matched under either, near spellings as `Experiment.fuzzy` says.
    repeated_ids : {"once", "each"}
        Whether an item that stands twice in a list counts once or each time as a hit.
    rank_without_hit : {"undefined", "zero"}
        AverageRank@K of a list without a hit: undefined (the deviation is left out and counted), or 0.
    rank_list : {"first-k", "whole"}
        Which part of the list AverageRank looks at.
    ncsd_population : {"everyone", "flipped"}
        NCSD column v holds every user under do(v) (the sensitive reply for users whose true value
        is v), or only the users whose value was flipped, filed under the value they were flipped to.
    neutral_reference : {"neutral", "factual-neutral"}
        The neutral reply; the released files hold two per scenario, from the same prompt text.
        ``factual-neutral`` takes the one filed under counterfactual = no and nothing else;
        ``neutral`` takes the other where that one is missing.
    failed_reply : {"exclude", "miss"}
        Whether a reply without a list leaves the sample (and is counted), or counts as no hit.
    test : {"student", "welch"}
        The t-test behind the column ``p``.
    dispersion : {"group-means", "users"}
        SNSR and SNSV over the group means (eqs 8 and 9), or the released code's SSND (range of
        the single deviations over all users) and SSNR (root of the mean of the group variances).
    intrinsic : {"users", "bootstrap-means"}
        Intrinsic fairness from the group means with a percentile interval and a permutation p, or
        the released code's mean of 1,000 bootstrap means and Welch's test on those means.

    Notes
    -----
    Source: FairEvalLLM (arXiv 2405.02219), sections 2.2 and 4, for ``PAPER``; the notebooks and
    result files released with it for ``RELEASED``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    ground_truth: Literal["held-out", "file"]
    matching: Literal["exact-title", "file-ids"]
    repeated_ids: Literal["once", "each"]
    rank_without_hit: Literal["undefined", "zero"]
    rank_list: Literal["first-k", "whole"]
    ncsd_population: Literal["everyone", "flipped"]
    neutral_reference: Literal["neutral", "factual-neutral"]
    failed_reply: Literal["exclude", "miss"]
    test: Literal["student", "welch"]
    dispersion: Literal["group-means", "users"]
    intrinsic: Literal["users", "bootstrap-means"]


PAPER = Protocol(
    name="paper",
    ground_truth="held-out",
    matching="exact-title",
    repeated_ids="once",
    rank_without_hit="undefined",
    rank_list="first-k",
    ncsd_population="everyone",
    neutral_reference="neutral",
    failed_reply="exclude",
    test="student",
    dispersion="group-means",
    intrinsic="users",
)

RELEASED = Protocol(
    name="released",
    ground_truth="file",
    matching="file-ids",
    repeated_ids="each",
    rank_without_hit="zero",
    rank_list="whole",
    ncsd_population="flipped",
    neutral_reference="factual-neutral",
    failed_reply="miss",
    test="welch",
    dispersion="users",
    intrinsic="bootstrap-means",
)

PROTOCOLS = {protocol.name: protocol for protocol in (RELEASED, PAPER)}

BENEFIT_FILES = {
    ("lastfm1k", "released"): "lastfm1k_top3.csv",
    ("ml1m", "released"): "ml1m_top3.csv",
    ("ml1m", "paper"): "ml1m_top3_heldout.csv",
}


class Experiment(BaseModel):
    """Everything a notebook's parameters cell can say.

    Attributes
    ----------
    name : str
        The experiment, and the folder of its exhibits below ``figures/`` or ``runs/``.
    dataset : str
        The data set: a key of `fairnb.datasets.loading.CARDS`. Released replies are there for ``lastfm1k``
        and ``ml1m``.
    protocol : {"released", "paper"}
        The name of a `Protocol`.
    released_folder : str
        The folder of benefit tables; empty for the one that comes with the project.
    replies : str
        Whose replies are evaluated: ``released`` (those of the paper), ``this-run`` (those that notebook 02
        of the same run read), or the folder of a run, such as ``runs/sample``.
    data_folder : str
        The folder of the data set's files; empty for the one where fairnb puts them.
    n_users : int
        Users to draw; 0 for all that are eligible.
    min_interactions, max_interactions : int
        Of a user of moderate activity, both inclusive.
    attributes : str
        What prompts state, separated by commas: ``gender``, ``age``, or another column of the users.
    missing : {"exclude", "keep", "fill"}
        What becomes of users who lack an attribute; see `fairnb.profiles.select`.
    stratify : str
        Columns in whose shares users are drawn, separated by commas; empty for a plain draw.
    train_share : float
        Of a user's interactions in time order, in (0, 1).
    age_split : str
        ``mean``, or the upper ages of all groups but the last, such as ``24`` or ``24,34``.
    profile_length, context_length : int
        Items of the passion profile, and of the interaction profile.
    omega : float
        Weight of recency in recent-frequent sampling (eq. 5), in [0, 1].
    recency : {"last", "first"}
        The interaction that tells how recent an item is.
    template : str
        The wording of prompts: ``fairnb-1``, ``released-lastfm``, or a TOML file.
    k : int
        Items to ask for.
    example_user : str
        The user whose profile and prompts are shown; empty for the first one drawn.
    alpha : float
        The level of the tests, in (0, 1).
    small_hit, large_hit, small_rank, large_rank : float
        Cut-offs of the levels of Table 1 on the size of δ. The paper prints none; these are ours.
    replicates : int
        Bootstrap replicates of users within groups.
    permutations : int
        Permutations where the exact distribution is larger than this number.
    min_group : int
        A group with fewer users is shown and marked, and left out of tests.
    seed : int
        The root of all named generators.
    simulations : int
        Simulated experiments behind each point of a power curve and each rate of false positives.
    curve : str
        The row of Table 2 whose specification curve is drawn: attribute, notion, ICL style, sampling, benefit.
    model : str
        The model to ask, by the name its server knows; ``simulated`` for the recommender that comes with
        fairnb and needs no server.
    base_url : str
        Address of an OpenAI-compatible server, such as ``http://127.0.0.1:11434/v1``.
    api_key_variable : str
        The environment variable that holds the key; the key itself is no setting.
    system_message : {"system", "user", "none"}
        Where the template's system message goes: a message of its own, in front of the prompt (for models
        whose chat template knows no system role), or nowhere.
    temperature, top_p : float
        Sent with each request; -1: not sent, the server's default holds.
    model_seed : int
        Seed sent with each request; -1: not sent.
    max_tokens : int
        Longest reply.
    stop : str
        Text at which a reply ends; empty for none.
    reasoning : {"ignore", "answer"}
        What to do with a reply that stands in the server's field for reasoning while the answer is empty.
    repeats : int
        How often each neutral prompt is asked: the repeats tell the noise beneath every deviation.
    concurrency : int
        Requests under way at a time.
    requests_per_minute, tokens_per_minute : int
        Limits that the client keeps by itself; 0 for none.
    timeout : float
        Seconds to wait for one answer.
    retry_seconds : float
        Seconds that a prompt may take with all its retries before it is recorded as failed.
    price_input, price_output : float
        Price of a million tokens, in any currency, for the estimate of costs.
    store : str
        File of replies: empty for ``runs/replies.sqlite``; an exported file (.jsonl) is read and nothing is asked.
    fuzzy : float
        Likeness in percent from which a misspelt title counts as a catalogue title; 0 for exact titles only.
    min_usable : float
        Share of replies that must hold a list; with fewer the fairness notebooks stop.
    sim_bias : str
        Simulated recommender: share of a list's places that are spoilt where a prompt says a word, such as
        ``female=0.3``; several separated by commas.
    sim_gap : str
        Share of a genre's items that it does not know, such as ``jazz=0.8``.
    sim_noise, sim_echo, sim_invented : float
        Shares of a list's places that change from one asking to the next, that repeat a title of the prompt,
        and that hold a title which does not exist.
    sim_refusals : str
        Share of prompts with a word that are refused, such as ``female=0.05``; ``any`` for every prompt.
    sim_format : str
        The form of the reply: ``numbered``, ``json``, ...; ``mixed`` for a form per prompt.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(default="released", pattern=r"^[a-z0-9][a-z0-9-]*$")
    dataset: Literal["lastfm1k", "ml1m", "ml100k", "ml1m-author", "sample-songs", "sample-films", "own"] = "lastfm1k"
    protocol: Literal["released", "paper"] = "released"
    released_folder: str = ""
    data_folder: str = ""
    n_users: int = Field(default=80, ge=0)
    min_interactions: int = Field(default=50, ge=2)
    max_interactions: int = Field(default=10_000, ge=2)
    attributes: str = "gender,age"
    missing: Literal["exclude", "keep", "fill"] = "exclude"
    stratify: str = ""
    train_share: float = Field(default=0.8, gt=0, lt=1)
    age_split: str = "mean"
    profile_length: int = Field(default=10, ge=1, le=1000)
    context_length: int = Field(default=5, ge=1, le=1000)
    omega: float = Field(default=0.65, ge=0, le=1)
    recency: Literal["last", "first"] = "last"
    template: str = "fairnb-1"
    k: int = Field(default=3, ge=1, le=1000)
    example_user: str = ""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    small_hit: float = Field(default=0.05, gt=0)
    large_hit: float = Field(default=0.10, gt=0)
    small_rank: float = Field(default=0.25, gt=0)
    large_rank: float = Field(default=0.50, gt=0)
    replicates: int = Field(default=1000, ge=100, le=1_000_000)
    permutations: int = Field(default=10_000, ge=100, le=1_000_000)
    min_group: int = Field(default=5, ge=2)
    seed: int = Field(default=ROOT_SEED, ge=0)
    simulations: int = Field(default=10_000, ge=100, le=1_000_000)
    curve: str = "gender NCSD 0-shot recent-frequent hit"
    replies: str = Field(default="released", min_length=1)
    model: str = ""
    base_url: str = ""
    api_key_variable: str = Field(default="OPENAI_API_KEY", pattern=r"^[A-Z][A-Z0-9_]{0,63}$")
    system_message: Literal["system", "user", "none"] = "system"
    temperature: float = Field(default=0.0, ge=-1, le=2)
    top_p: float = Field(default=-1.0, ge=-1, le=1)
    model_seed: int = Field(default=-1, ge=-1)
    max_tokens: int = Field(default=1500, ge=1)
    stop: str = ""
    reasoning: Literal["ignore", "answer"] = "ignore"
    repeats: int = Field(default=1, ge=1, le=100)
    concurrency: int = Field(default=8, ge=1, le=1000)
    requests_per_minute: int = Field(default=0, ge=0)
    tokens_per_minute: int = Field(default=0, ge=0)
    timeout: float = Field(default=120.0, gt=0)
    retry_seconds: float = Field(default=300.0, ge=0)
    price_input: float = Field(default=0.0, ge=0)
    price_output: float = Field(default=0.0, ge=0)
    store: str = ""
    fuzzy: float = Field(default=92.0, ge=0, le=100)
    min_usable: float = Field(default=0.9, ge=0, le=1)
    sim_bias: str = ""
    sim_gap: str = ""
    sim_noise: float = Field(default=0.0, ge=0, le=1)
    sim_echo: float = Field(default=0.0, ge=0, le=1)
    sim_invented: float = Field(default=0.0, ge=0, le=1)
    sim_refusals: str = ""
    sim_format: str = "numbered"

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ParameterError(first_line(error, type(self))) from None

    @classmethod
    def named(cls, name: str, **declared: Any) -> Experiment:
        """Return the settings of a notebook: what its cell declares, and the rest from the experiment of that name.

        Under the runner of notebooks the rest comes from the experiment that is being run.
        """
        file = os.environ.get(SETTINGS_VARIABLE)
        rest = json.loads(Path(file).read_text("utf-8")) if file else {"name": name, **load_plan(name).parameters}
        return cls(**{**rest, **declared})

    @field_validator(
        *("alpha", "small_hit", "large_hit", "small_rank", "large_rank", "train_share", "omega", "temperature"),
        *("top_p", "timeout", "retry_seconds", "price_input", "price_output", "fuzzy", "min_usable"),
        *("sim_noise", "sim_echo", "sim_invented"),
        mode="before",
    )
    @classmethod
    def _whole_numbers_are_numbers(cls, value: object) -> object:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("temperature", "top_p")
    @classmethod
    def _sent_or_not(cls, value: float) -> float:
        if -1 < value < 0:
            raise ValueError("expected 0 or more, or -1 for not sent")
        return value

    @field_validator("fuzzy")
    @classmethod
    def _in_percent(cls, value: float) -> float:
        if 0 < value < 50:
            raise ValueError("expected a likeness in percent from 50 to 100, or 0 for exact titles only")
        return value

    @field_validator("age_split")
    @classmethod
    def _ages_rise(cls, value: str) -> str:
        if value == "mean":
            return value
        parts = [part.strip() for part in value.split(",")]
        ages = [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 4]
        if len(ages) < len(parts) or ages != sorted(set(ages)):
            raise ValueError("expected mean, or one or more rising whole ages such as 24 or 24,34")
        return ",".join(map(str, ages))

    @field_validator("curve")
    @classmethod
    def _is_a_row(cls, value: str) -> str:
        known = (("gender", "age"), NOTIONS, ICLS, SAMPLINGS, BENEFITS)
        words = value.split()
        if len(words) != len(known) or any(word not in names for word, names in zip(words, known, strict=True)):
            raise ValueError(
                "no row of Table 2; expected attribute, notion, ICL style, sampling and benefit, such as "
                "gender NCSD 0-shot recent-frequent hit"
            )
        return " ".join(words)

    @field_validator("attributes", "stratify")
    @classmethod
    def _names_differ(cls, value: str) -> str:
        names = _listed(value)
        if len(set(names)) < len(names):
            raise ValueError("a name stands twice; expected once")
        return value

    @model_validator(mode="after")
    def _attributes_are_named(self) -> Experiment:
        if not self.stated:
            raise ValueError("attributes is empty; expected one or more columns of the users, such as gender,age")
        if self.min_interactions > self.max_interactions:
            raise ValueError(
                f"min_interactions = {self.min_interactions} must not be above "
                f"max_interactions = {self.max_interactions}"
            )
        return self

    @model_validator(mode="after")
    def _cut_offs_rise(self) -> Experiment:
        for benefit in BENEFITS:
            small, large = getattr(self, f"small_{benefit}"), getattr(self, f"large_{benefit}")
            if small >= large:
                raise ValueError(f"small_{benefit} = {small} must be below large_{benefit} = {large}")
        return self

    @property
    def rules(self) -> Protocol:
        """The protocol itself."""
        return PROTOCOLS[self.protocol]

    @property
    def cutoffs(self) -> dict[str, tuple[float, float]]:
        """Cut-offs of |δ| per benefit: (small, large)."""
        return {"hit": (self.small_hit, self.large_hit), "rank": (self.small_rank, self.large_rank)}

    @property
    def cutoff_ages(self) -> tuple[int, ...] | None:
        """Upper ages of all age groups but the last; None where the mean age parts two groups."""
        if self.age_split == "mean":
            return None
        return tuple(int(part) for part in self.age_split.split(","))

    @property
    def stated(self) -> tuple[str, ...]:
        """The attributes that prompts state."""
        return _listed(self.attributes)

    @property
    def strata(self) -> tuple[str, ...]:
        """The columns in whose shares users are drawn."""
        return _listed(self.stratify)

    @property
    def matter(self) -> dict[str, Any]:
        """The settings that results depend on: all but `OPERATIONAL`."""
        return self.model_dump(exclude=set(OPERATIONAL))

    @property
    def is_default(self) -> bool:
        """Whether its exhibits are under version control: one of `DEFAULT_EXPERIMENTS` as it comes."""
        return self.name in DEFAULT_EXPERIMENTS and self.matter == _default(self.name).matter

    @property
    def slug(self) -> str:
        """A folder name: the experiment's name, and a hash of the settings where they differ."""
        if self.is_default:
            return self.name
        text = json.dumps(self.matter, sort_keys=True)
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


@lru_cache
def _default(name: str) -> Experiment:
    return Experiment(name=name, **load_plan(name).parameters)


class Plan(BaseModel):
    """An experiment file: the notebooks to run, in which order, and what to set in them.

    Attributes
    ----------
    name, title : str
        What the run is called in folders and in messages.
    notebooks : dict of str to list of str
        Notebook (without ``.ipynb``) to the notebooks that must have run before it.
    parameters : dict
        Settings that differ from the defaults, by the names of `Experiment`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str
    notebooks: dict[str, list[str]] = Field(min_length=1)
    parameters: dict[str, bool | int | float | str] = {}

    @model_validator(mode="after")
    def _order_exists(self) -> Plan:
        for notebook, needs in self.notebooks.items():
            for need in needs:
                if need not in self.notebooks:
                    raise ValueError(f"notebook {notebook} needs {need}, which the plan does not run")
        done: set[str] = set()
        while len(done) < len(self.notebooks):
            ready = {name for name, needs in self.notebooks.items() if done.issuperset(needs)} - done
            if not ready:
                raise ValueError(f"notebooks wait for each other: {sorted(set(self.notebooks) - done)}")
            done |= ready
        return self


def plans() -> list[str]:
    """Return the names of the experiments that come with fairnb, the default ones first."""
    folder = resources.files("fairnb") / "experiments"
    found = {item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml")}
    return [*(name for name in DEFAULT_EXPERIMENTS if name in found), *sorted(found - set(DEFAULT_EXPERIMENTS))]


def load_plan(name_or_file: str) -> Plan:
    """Read an experiment by its name or from a TOML file.

    Raises
    ------
    ParameterError
        If it is neither, or the file has a line or a key that does not belong there.
    """
    if name_or_file in plans():
        text = (resources.files("fairnb") / "experiments" / f"{name_or_file}.toml").read_text("utf-8")
    else:
        file = Path(name_or_file)
        if not file.is_file():
            if file.suffix == ".toml":
                raise ParameterError(f"{name_or_file}: no such file; `fairnb new {name_or_file}` writes one to fill in")
            close = difflib.get_close_matches(name_or_file, plans(), n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise ParameterError(
                f"{name_or_file!r}: no such experiment; {hint}expected one of {', '.join(plans())}, or a .toml file"
            )
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError:
            raise ParameterError(f"{file}: not a text file in UTF-8; expected an experiment in TOML") from None
    try:
        return Plan(**tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(f"{name_or_file}: not valid TOML: {error}") from None
    except ValidationError as error:
        raise ParameterError(f"{name_or_file}: {first_line(error, Plan)}") from None


def first_line(error: ValidationError, model: type[BaseModel]) -> str:
    """Tell the first validation error in one line: the field, what was expected, what came."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{field}: unknown setting; known are {', '.join(model.model_fields)}"
    if first["type"] == "missing":
        return f"{field}: missing; add it"
    message = first["msg"].removeprefix("Value error, ")
    if first["loc"][:1] == ("parameters",) and len(first["loc"]) > 2:  # one branch of several types
        field, message = ".".join(map(str, first["loc"][:2])), "expected a text, a number, true or false"
    elif first["type"] == "string_pattern_mismatch" and field == "name":
        message = "expected small letters, digits and hyphens, such as my-model"
    elif first["type"] == "too_short" and field == "notebooks":
        message = "expected at least one notebook, such as 01_profiling = []"
    if not field:
        return message
    if field == "api_key_variable":
        # Whoever puts the key itself here must not find it in a log.
        return f"{field}: expected the name of an environment variable, such as OPENAI_API_KEY, and not the key itself"
    return f"{field} = {first['input']!r:.80}: {message[0].lower()}{message[1:]}"
