"""Asks for the replies of a run before its notebooks start, and tells what is missing and how to get it.

This happens in the runner and not in a notebook, so that the key reaches no kernel, and a bar and Ctrl-C work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fairnb import frames, generation
from fairnb.errors import FairnbError
from fairnb.settings import Experiment


@dataclass(frozen=True)
class Asking:
    """How replies of a real model are asked for.

    Attributes
    ----------
    retry : bool
        Ask again for what failed before.
    command : str
        The command that runs this again, for messages.
    progress : bool
        Draw a bar.
    """

    retry: bool = False
    command: str = ""
    progress: bool = False


def collect(
    experiment: Experiment, grid: pd.DataFrame, asking: Asking, to: Path, announce: Callable[[str], None]
) -> list[str]:
    """Ask a real model for the replies that the store lacks, and leave all of them as frame ``replies``.

    Returns
    -------
    list of str
        What is missing, and the command that asks for it; empty if nothing is.

    Raises
    ------
    FairnbError
        If asking stopped before its end; says why, and how to go on.
    KeyboardInterrupt
        After Ctrl-C, with the replies so far kept.
    """
    if generation.is_simulated(experiment):
        return []
    with generation.open_store(experiment) as store:
        plan = generation.plan_for(experiment, grid, store)
        todo = plan.to_ask(retry=asking.retry)
        announce(
            f"  {plan.conditions:,} conditions, {plan.texts:,} different texts, {len(plan.requests):,} calls with "
            f"repeats; {len(todo):,} to ask {experiment.model} at {experiment.base_url}"
        )
        interrupted = False
        tally = None
        try:
            tally = generation.ask(
                experiment, plan, store, retry=asking.retry, progress=asking.progress, announce=announce
            )
        except KeyboardInterrupt:
            interrupted = True
        replies = generation.replies_frame(experiment, plan, store)
    frames.write(experiment, to=to, replies=replies)
    if tally and todo:
        spent = generation.cost(experiment, tally.prompt_tokens, tally.completion_tokens)
        money = f", cost {spent:.2f}" if experiment.price_input or experiment.price_output else ""
        announce(
            f"  {sum(tally.statuses.values()):,} replies in {tally.seconds:.0f} s: {tally.answers:,} answers; "
            f"{tally.prompt_tokens:,} tokens read, {tally.completion_tokens:,} written{money}"
        )
        for text, count in tally.warnings.items():
            announce(f"  note: {text} ({count} times)")
    lacking = generation.missing(replies)
    lines = _lacking(lacking, len(replies), asking.command)
    if interrupted or (tally and tally.stopped):
        for line in lines:
            announce(f"  {line}")
    if interrupted:
        raise KeyboardInterrupt
    if tally and tally.stopped:
        again = f"the replies so far are kept; then run `{asking.command}` again"
        if len(lacking) > (generation.NOT_ASKED in lacking):
            again += " with --retry-failed"
        raise FairnbError(f"asking stopped: {tally.stopped}; {again}")
    if lines:
        announce(f"  {lines[0]}")
    return lines


def _lacking(lacking: Mapping[str, int], wanted: int, command: str) -> list[str]:
    """Say which replies are missing, and the command that asks for these only."""
    if not lacking:
        return []
    counts = ", ".join(f"{status.replace('_', ' ')} {count:,}" for status, count in sorted(lacking.items()))
    failed = any(status != generation.NOT_ASKED for status in lacking)
    option = " --retry-failed" if failed and "--retry-failed" not in command else ""
    return [
        f"missing: {sum(lacking.values()):,} of {wanted:,} replies ({counts})",
        f"`{command}{option}` asks for these only",
    ]
