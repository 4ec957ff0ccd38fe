"""From prompts to replies: what is asked, what came back, and what is missing.

Nothing here knows a ground truth: replies are collected from prompts alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fairnb import frames, paths, profiles, prompts
from fairnb.errors import FairnbError, ParameterError
from fairnb.llm import client
from fairnb.llm.request import Request, put_right
from fairnb.llm.simulated import Dials, Simulated, bundled
from fairnb.llm.store import ANSWERS, Reply, Store
from fairnb.profiles import Selection
from fairnb.settings import SETTINGS_VARIABLE, SIMULATED, Experiment

NOT_ASKED = "not_asked"
# What a title in a numbered list comes to, for the estimate of costs before anything is asked.
_TOKENS_PER_ITEM = 15
COLUMNS = list(frames.SCHEMAS["replies"])


@dataclass(frozen=True)
class Plan:
    """What an experiment asks.

    Attributes
    ----------
    requests : tuple of Request
        Each text once, and neutral ones again for each repeat; all of a user's together, so that a run that
        ends early holds whole users.
    conditions : int
        Rows of the grid that the replies are for.
    texts : int
        Different texts among them.
    statuses : dict of str to str
        Key to status, of what the store holds already.
    """

    requests: tuple[Request, ...]
    conditions: int
    texts: int
    statuses: dict[str, str]

    def to_ask(self, *, retry: bool = False) -> list[Request]:
        """Return what the store lacks; with ``retry`` also what failed."""
        good = set(self.statuses) if not retry else {k for k, status in self.statuses.items() if status in ANSWERS}
        return [request for request in self.requests if request.key not in good]

    def estimate(self, experiment: Experiment, *, retry: bool = False) -> dict[str, float]:
        """Estimate what asking takes: ``calls``, ``prompt_tokens``, ``completion_tokens``, ``cost``."""
        todo = self.to_ask(retry=retry)
        texts = pd.Series([message["content"] for request in todo for message in request.messages], dtype=object)
        read = int(prompts.estimate_tokens(texts).sum()) if len(texts) else 0
        written = len(todo) * min(experiment.max_tokens, _TOKENS_PER_ITEM * experiment.k)
        return {
            "calls": len(todo),
            "prompt_tokens": read,
            "completion_tokens": written,
            "cost": cost(experiment, read, written),
        }


def cost(experiment: Experiment, prompt_tokens: int, completion_tokens: int) -> float:
    """Compute the cost of tokens from the prices of a million."""
    return (experiment.price_input * prompt_tokens + experiment.price_output * completion_tokens) / 1e6


def grid_for(experiment: Experiment, selection: Selection) -> pd.DataFrame:
    """Write the prompts of an experiment from its users; see `fairnb.prompts.build`."""
    template = prompts.load_template(experiment.template, selection.dataset.kind)
    recent = profiles.recent(selection.train, experiment.context_length + profiles.EXAMPLES)
    return prompts.build_for(experiment, selection, profiles.passion_for(experiment, selection.train), recent, template)


def check(experiment: Experiment) -> Experiment:
    """Check the settings of the model; return them with the address put right.

    Raises
    ------
    ParameterError
        If model or base_url is missing or no address, or a dial of the simulated recommender does not fit.
    """
    if not experiment.model:
        raise ParameterError("model is empty; expected simulated, or the name of a model and its server's base_url")
    if experiment.model == SIMULATED and not experiment.base_url:
        dials_of(experiment)
        return experiment
    if not experiment.base_url:
        raise ParameterError(
            f"model = {experiment.model!r}: base_url is empty; expected the address of an OpenAI-compatible server, "
            f"such as http://127.0.0.1:11434/v1"
        )
    return experiment.model_copy(update={"base_url": put_right(experiment.base_url)})


def is_simulated(experiment: Experiment) -> bool:
    """Whether replies come from the simulated recommender in this process."""
    return experiment.model == SIMULATED and not experiment.base_url


def dials_of(experiment: Experiment) -> Dials:
    """Return the dials of the simulated recommender.

    Raises
    ------
    ParameterError
        If one does not fit; names the setting.
    """
    names = ("bias", "gap", "noise", "echo", "invented", "refusals", "format")
    try:
        return Dials.of(**{name: getattr(experiment, f"sim_{name}") for name in names})
    except ParameterError as error:
        raise ParameterError(f"sim_{error}") from None


def simulated_for(experiment: Experiment, kind: str) -> Simulated:
    """Return the simulated recommender of an experiment; it knows the catalogue that comes with fairnb."""
    return bundled(kind, dials_of(experiment), experiment.seed)


def _kind_of(grid: pd.DataFrame) -> str:
    """Return songs or films, from the version of the grid's template."""
    return str(grid["template"].iloc[0]).split("/")[1].split("@")[0]


def requests_for(experiment: Experiment, grid: pd.DataFrame) -> list[Request]:
    """List what is to be asked for a grid of prompts."""
    template = prompts.load_template(experiment.template, _kind_of(grid))
    system = "" if experiment.system_message == "none" else template.system
    neutral = set(grid.loc[grid["ranker"] == "neutral", "prompt_id"])
    unique = grid.drop_duplicates("prompt_id")
    return [
        Request(
            prompt_id=identity,
            text=text,
            system=system,
            base_url=experiment.base_url,
            model=experiment.model,
            system_message="system" if experiment.system_message == "none" else experiment.system_message,
            temperature=experiment.temperature,
            top_p=experiment.top_p,
            seed=experiment.model_seed,
            max_tokens=experiment.max_tokens,
            stop=experiment.stop.replace("\\n", "\n"),
            repeat=repeat,
        )
        for identity, text in zip(unique["prompt_id"], unique["text"], strict=True)
        for repeat in range(experiment.repeats if identity in neutral else 1)
    ]


def plan_for(experiment: Experiment, grid: pd.DataFrame, store: Store | None = None) -> Plan:
    """Plan what is asked for a grid; what the store holds is not asked again."""
    requests = tuple(requests_for(experiment, grid))
    statuses = store.statuses([request.key for request in requests]) if store else {}
    return Plan(requests, len(grid), grid["prompt_id"].nunique(), statuses)


def store_file(experiment: Experiment) -> Path:
    """Return the file of replies that an experiment reads and writes."""
    return paths.root() / experiment.store if experiment.store else paths.runs() / "replies.sqlite"


def open_store(experiment: Experiment) -> Store:
    """Open the store of an experiment."""
    return Store(store_file(experiment))


def ask(
    experiment: Experiment,
    plan: Plan,
    store: Store,
    *,
    retry: bool = False,
    progress: bool = True,
    announce: Callable[[str], None] = print,
) -> client.Tally:
    """Ask for what the store lacks.

    Parameters
    ----------
    experiment : Experiment
        From `check`.
    plan : Plan
    store : Store
    retry : bool
        Ask also for what failed before.
    progress : bool
        Draw a bar on standard error.
    announce : callable
        Gets single lines of news.

    Returns
    -------
    Tally
        See `fairnb.llm.client.ask`, also for errors; with nothing to ask it is empty and no server is needed.

    Raises
    ------
    FairnbError
        If something is to be asked and the store is an exported file, which is only read.
    ParameterError
        If the server lists its models and this one is not among them.
    """
    todo = plan.to_ask(retry=retry)
    if not todo:
        return client.Tally()
    if store.read_only:
        raise FairnbError(
            f"{paths.shown(store.file)}: holds {len(plan.requests) - len(todo):,} of the {len(plan.requests):,} "
            f"replies that this experiment needs, and an exported file is only read; use the settings it was made "
            f"with, or import it with `fairnb replies import`, and ask for the rest"
        )
    store.require_writable()
    key = os.environ.get(experiment.api_key_variable, "")
    _require_model(experiment, key)
    limits = client.Limits(
        concurrency=experiment.concurrency,
        requests_per_minute=experiment.requests_per_minute,
        tokens_per_minute=experiment.tokens_per_minute,
        timeout=experiment.timeout,
        retry_seconds=experiment.retry_seconds,
    )
    return client.ask(
        todo,
        store,
        key=key,
        limits=limits,
        accept_reasoning=experiment.reasoning == "answer",
        progress=progress,
        announce=announce,
    )


def _require_model(experiment: Experiment, key: str) -> None:
    names = client.models(experiment.base_url, key)
    if names and not any(name == experiment.model or name.startswith(f"{experiment.model}:") for name in names):
        some = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise ParameterError(
            f"model = {experiment.model!r}: not listed by the server at {experiment.base_url}; expected one of {some}"
        )


def replies_frame(experiment: Experiment, plan: Plan, store: Store) -> pd.DataFrame:
    """Read the replies to a plan from the store, those never asked included (status ``not_asked``).

    Returns
    -------
    DataFrame
        One row per request, in the plan's order, with the columns of frame ``replies``.
    """
    found = {reply.key: reply for reply in store.read([request.key for request in plan.requests])}
    rows = [_row(request, found.get(request.key), experiment) for request in plan.requests]
    return _typed(rows)


def _row(request: Request, reply: Reply | None, experiment: Experiment) -> tuple[object, ...]:
    if reply is None:
        return (request.prompt_id, request.repeat, request.model, NOT_ASKED, "", "", None, None, "")
    status, text = reply.status, reply.text
    if not text.strip() and reply.reasoning.strip():
        # Kept apart in the store, so that one store serves both choices.
        accepted = experiment.reasoning == "answer"
        status, text = ("answered", reply.reasoning) if accepted else ("empty_content", "")
    return (
        *(request.prompt_id, request.repeat, request.model, status, text, reply.finish_reason),
        *(reply.prompt_tokens, reply.completion_tokens, reply.error),
    )


def _typed(rows: Sequence[tuple[object, ...]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=COLUMNS)
    numbers = ["repeat", "prompt_tokens", "completion_tokens"]
    return frame.astype(dict.fromkeys(numbers, "Int64"))


def simulate(experiment: Experiment, grid: pd.DataFrame) -> pd.DataFrame:
    """Let the simulated recommender answer a grid; the frame is that of `replies_frame`."""
    requests = requests_for(experiment, grid)
    model = simulated_for(experiment, _kind_of(grid))
    rows = []
    for request in requests:
        answer = model.answer(request.text, system=request.system, repeat=request.repeat)
        rows.append(
            (
                *(request.prompt_id, request.repeat, SIMULATED, "answered", answer.text, answer.finish_reason),
                *(answer.prompt_tokens, answer.completion_tokens, ""),
            )
        )
    return _typed(rows)


def collect(experiment: Experiment, grid: pd.DataFrame) -> pd.DataFrame:
    """Return the replies of an experiment, as notebook 02 needs them.

    The simulated recommender answers at once. Under `fairnb run` the replies of a real model are there already;
    by hand they are read from the store, and what it lacks is asked for.
    """
    experiment = check(experiment)
    if is_simulated(experiment):
        return simulate(experiment, grid)
    if os.environ.get(SETTINGS_VARIABLE):
        return frames.read(experiment, "replies")
    with open_store(experiment) as store:
        plan = plan_for(experiment, grid, store)
        tally = ask(experiment, plan, store)
        if tally.stopped:
            raise FairnbError(f"{tally.stopped}; the replies so far are kept, run the cell again for the rest")
        return replies_frame(experiment, plan, store)


def missing(replies: pd.DataFrame) -> Counter[str]:
    """Count the requests without an answer, by status."""
    return Counter(replies.loc[~replies["status"].isin(ANSWERS), "status"])
