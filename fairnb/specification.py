"""The specification curve: δ of a row under every sensible combination of the protocol's choices.

A specification is one such combination. Choices are those of `fairnb.settings.Protocol` that change a number of
Table 2, with one level more where there is another sensible one: the neutral reply filed under counterfactual =
yes, and the mean of both, as the reference; four tests; and leaving out lists of which nothing was matched.

Source: Simonsohn, Simmons & Nelson 2020 (specification curve analysis).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairnb import places, statistics
from fairnb.datasets.released import DEMOGRAPHICS, K
from fairnb.errors import ParameterError
from fairnb.fairness import AGE, GENDER, Attribute
from fairnb.settings import BENEFITS, ICLS, NOTIONS, RELEASED, SAMPLINGS, Experiment

Array = npt.NDArray[np.float64]

REFERENCES = ("filed under no", "filed under yes", "mean of both")
POPULATIONS = ("flipped", "everyone")
TESTS = ("welch", "student", "permutation", "mann-whitney")
LISTS = ("all", "with a match")
# Choices that δ itself depends on; the test decides about p only.
SHAPING = (
    "ground_truth",
    "matching",
    "lists",
    "repeated_ids",
    "rank_without_hit",
    "rank_list",
    "reference",
    "population",
)
CHOICES = (*SHAPING, "test")
ROW = ["attribute", "notion", "icl", "sampling", "benefit"]
_WAYS = {
    "ids_file": ("file", "file-ids"),
    "ids_heldout": ("held-out", "file-ids"),
    "titles_file": ("file", "exact-title"),
    "titles_heldout": ("held-out", "exact-title"),
}
_FLIPPED = ("no", "yes")
# Thousands of tests share a curve; p near 0.05 has a standard error of 0.005 then.
_PERMUTATIONS = 2_000
# What the released code does, in these words.
RELEASED_LEVELS = {
    "ground_truth": RELEASED.ground_truth,
    "matching": RELEASED.matching,
    "lists": "all",
    "repeated_ids": RELEASED.repeated_ids,
    "rank_without_hit": RELEASED.rank_without_hit,
    "rank_list": RELEASED.rank_list,
    "reference": "filed under no",
    "population": RELEASED.ncsd_population,
    "test": RELEASED.test,
}


@dataclass(frozen=True)
class _Lists:
    """Benefits of all lists under one way to score them: users x samplings x ICL styles x flipped x demographics."""

    levels: Mapping[str, str]
    benefit: str
    values: Array


def curve(words: pd.DataFrame, experiment: Experiment, attributes: Sequence[Attribute] = (GENDER, AGE)) -> pd.DataFrame:
    """Compute δ and p of every row of Table 2 under every specification.

    Parameters
    ----------
    words : DataFrame
        From `fairnb.released.read_places`. The columns of words decide which ground truths and matchings can be
        had.
    experiment : Experiment
        ``permutations`` (no more than 2,000), ``seed`` and ``min_group`` are used.
    attributes : sequence of Attribute
        With two groups each.

    Returns
    -------
    DataFrame
        One row per row of Table 2 and specification: `ROW`, `CHOICES` (empty text for a choice that the row does
        not have: those of rank for hit, the population for NSD), ``n1``, ``n2``, ``delta``, ``p`` (NaN where
        undefined, or for a group under ``min_group``), ``constant`` (a group has no variation). A choice that
        changes no benefit of any list stays at the released code's level: counting it twice would only count
        the others twice.

    Raises
    ------
    ParameterError
        If an attribute has other than two groups.
    """
    for attribute in attributes:
        if len(attribute.values) != 2:
            raise ParameterError(f"{attribute.name}: {len(attribute.values)} groups; expected two")
    users = words.drop_duplicates("user").set_index("user").sort_index()
    tested: dict[tuple[bytes, bytes, bool], dict[str, float]] = {}
    rows: list[dict[str, object]] = []
    for lists in _all_lists(words, users):
        for attribute, notion in product(attributes, NOTIONS):
            first = (attribute.groups(users) == attribute.values[0]).to_numpy()
            for levels, sides in _deviations(lists, notion, attribute.name, first):
                for place, (sampling, icl) in enumerate(product(SAMPLINGS, ICLS)):
                    x, y = (side[:, place] for side in sides)
                    used = [values[np.isfinite(values)] for values in (x, y)]
                    paired = levels.get("population") == "everyone"
                    key = (x.round(9).tobytes(), y.round(9).tobytes(), paired)
                    if key not in tested:
                        tested[key] = _tests(x, y, experiment, paired=paired)
                    head = {
                        "attribute": attribute.name,
                        "notion": notion,
                        "icl": icl,
                        "sampling": sampling,
                        "benefit": lists.benefit,
                        **dict.fromkeys(CHOICES, ""),
                        **lists.levels,
                        **levels,
                        "n1": used[0].size,
                        "n2": used[1].size,
                        "delta": statistics.settled(statistics.mean(used[0]) - statistics.mean(used[1])),
                        "constant": any(part.size > 1 and statistics.no_variation(part) for part in used),
                    }
                    rows += [{**head, "test": test, "p": p} for test, p in tested[key].items()]
    frame = pd.DataFrame(rows)
    # A missing neutral reply is no specification.
    return frame[frame["delta"].notna()].reset_index(drop=True)


def _all_lists(words: pd.DataFrame, users: pd.DataFrame) -> list[_Lists]:
    at = [
        words["user"].map({user: number for number, user in enumerate(users.index)}),
        *(
            words[name].map({value: number for number, value in enumerate(values)})
            for name, values in (
                ("sampling", SAMPLINGS),
                ("icl", ICLS),
                ("counterfactual", _FLIPPED),
                ("demographics", DEMOGRAPHICS),
            )
        ),
    ]
    where = tuple(np.asarray(index) for index in at)
    shape = (len(users), len(SAMPLINGS), len(ICLS), len(_FLIPPED), len(DEMOGRAPHICS))
    found = []
    for way, (truth, matching) in _WAYS.items():
        if way not in words.columns:
            continue
        unmatched = words[way].str.fullmatch("-*").to_numpy()
        for repeated, kept in product(("each", "once"), LISTS):
            rules = RELEASED.model_copy(update={"repeated_ids": repeated})
            levels = {"ground_truth": truth, "matching": matching, "lists": kept, "repeated_ids": repeated}
            out = unmatched & (kept == "with a match")
            hit = places.benefits(words[way], K, rules)["hit_rate"].to_numpy(dtype=float)
            found.append(_Lists(levels, "hit", _filled(shape, where, hit, out)))
            for empty, part in product(("zero", "undefined"), ("whole", "first-k")):
                ranked = rules.model_copy(update={"rank_without_hit": empty, "rank_list": part})
                rank = places.benefits(words[way], K, ranked)["average_rank"].to_numpy(dtype=float)
                more = {**levels, "rank_without_hit": empty, "rank_list": part}
                found.append(_Lists(more, "rank", _filled(shape, where, rank, out)))
    return _that_matter(found)


def _that_matter(found: list[_Lists]) -> list[_Lists]:
    """Drop the other levels of choices that change no list's benefit."""
    for choice in ("lists", "repeated_ids", "rank_without_hit", "rank_list"):
        kept = [one for one in found if one.levels.get(choice, "") in ("", RELEASED_LEVELS[choice])]
        by_rest = {_rest(one, choice): one.values for one in kept}
        if all(np.array_equal(one.values, by_rest[_rest(one, choice)], equal_nan=True) for one in found):
            found = kept
    return found


def _rest(one: _Lists, choice: str) -> tuple[str, ...]:
    return (one.benefit, *(level for name, level in one.levels.items() if name != choice))


def _filled(shape: tuple[int, ...], where: tuple[Array, ...], values: Array, out: Array) -> Array:
    filled = np.full(shape, math.nan)
    filled[where] = np.where(out, math.nan, values)
    return filled


def _deviations(
    lists: _Lists, notion: str, attribute: str, first: npt.NDArray[np.bool_]
) -> list[tuple[dict[str, str], tuple[Array, Array]]]:
    """Return ΔB of both columns (users x nine scenarios, NaN for users who are not in it) per remaining choice."""
    values = lists.values
    neutral = values[..., DEMOGRAPHICS.index("none")]
    stated = values[..., DEMOGRAPHICS.index(attribute)]
    true, flipped = stated[..., 0], stated[..., 1]
    found = []
    for reference in REFERENCES:
        base = {
            "filed under no": neutral[..., 0],
            "filed under yes": neutral[..., 1],
            "mean of both": neutral.mean(axis=-1),
        }[reference]
        kept, moved = ((one - base).reshape(len(values), -1) for one in (true, flipped))
        if notion == "NSD":
            found.append(({"reference": reference}, (_only(kept, first), _only(kept, ~first))))
            continue
        for population in POPULATIONS:
            levels = {"reference": reference, "population": population}
            # Column v holds the users who were told v: the others' flipped lists, and for everyone also the
            # true lists of those who are v.
            if population == "flipped":
                sides = (_only(moved, ~first), _only(moved, first))
            else:
                sides = (np.where(first[:, None], kept, moved), np.where(first[:, None], moved, kept))
            found.append((levels, sides))
    return found


def _only(values: Array, chosen: npt.NDArray[np.bool_]) -> Array:
    return np.where(chosen[:, None], values, math.nan)


def _tests(x: Array, y: Array, experiment: Experiment, *, paired: bool) -> dict[str, float]:
    known = [np.isfinite(side) for side in (x, y)]
    one, other = (side[there] for side, there in zip((x, y), known, strict=True))
    if min(one.size, other.size) < experiment.min_group:
        return dict.fromkeys(TESTS, math.nan)
    pairs: list[tuple[int, int]] = []
    if paired:
        places_of = [np.cumsum(there) - 1 for there in known]
        both = np.flatnonzero(known[0] & known[1])
        pairs = [(int(places_of[0][user]), int(places_of[1][user])) for user in both]
    return {
        "welch": statistics.t_test(one, other, "welch"),
        "student": statistics.t_test(one, other, "student"),
        "permutation": statistics.permutation_test(
            one, other, resamples=min(experiment.permutations, _PERMUTATIONS), root=experiment.seed, pairs=pairs
        ),
        "mann-whitney": statistics.mann_whitney(one, other),
    }


def summary(specifications: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """Summarise the specifications of each row of Table 2.

    Parameters
    ----------
    specifications : DataFrame
        From `curve`.
    alpha : float

    Returns
    -------
    DataFrame
        `ROW`; ``specifications`` (different δ: tests apart), ``median``, ``low``, ``high`` (of δ), ``positive``,
        ``negative`` (shares of δ), ``released_delta`` (δ by the released code's choices), ``same_sign`` (share of
        δ with the sign of ``released_delta``; NaN where that is 0 or missing), ``tests`` (specifications with a p
        and variation in both groups), ``significant`` (share of these with p < alpha), ``constant`` (share of all
        with a group without variation).
    """
    found = []
    for row, part in specifications.groupby(ROW, sort=False):
        once = part[part["test"] == TESTS[0]]
        delta = once["delta"].to_numpy()
        own = once[as_released(once)]
        released = float(own["delta"].iloc[0]) if len(own) else math.nan
        tested = part[part["p"].notna() & ~part["constant"]]
        found.append(
            {
                **dict(zip(ROW, row, strict=True)),
                "specifications": len(once),
                "median": float(np.median(delta)),
                "low": float(delta.min()),
                "high": float(delta.max()),
                "positive": float((delta > 0).mean()),
                "negative": float((delta < 0).mean()),
                "released_delta": released,
                "same_sign": float((np.sign(delta) == np.sign(released)).mean()) if released else math.nan,
                "tests": len(tested),
                "significant": float((tested["p"] < alpha).mean()) if len(tested) else math.nan,
                "constant": float(part["constant"].mean()),
            }
        )
    order = {value: place for place, value in enumerate((*NOTIONS, *ICLS, *SAMPLINGS, *BENEFITS))}
    frame = pd.DataFrame(found)
    return frame.sort_values(
        ["benefit", "attribute", "notion", "sampling", "icl"],
        key=lambda column: column.map(order).fillna(column) if column.name != "attribute" else -column.eq("gender"),
        ignore_index=True,
    )


def as_released(rows: pd.DataFrame) -> pd.Series:
    """Tell which rows of `curve` make the choices of the released code, whatever the test."""
    same = pd.Series(data=True, index=rows.index)
    for choice in SHAPING:
        same &= rows[choice].isin(["", RELEASED_LEVELS[choice]])
    return same


def influence(specifications: pd.DataFrame) -> pd.DataFrame:
    """Decompose the variance of δ over the specifications of each row into the choices' main effects.

    Returns
    -------
    DataFrame
        `ROW`, ``choice``, ``share``: the variance of the level means (weighted by their number of specifications)
        over the variance of all δ, in [0, 1]; what the shares of a row lack to 1 belongs to combinations of
        choices. NaN where all δ of a row are equal. Choices that a row does not have are left out.

    Notes
    -----
    η² of a one-way classification per choice; in a balanced design the main effects of an analysis of variance.
    """
    found = []
    for row, part in specifications[specifications["test"] == TESTS[0]].groupby(ROW, sort=False):
        total = statistics.variance(part["delta"], 0)
        for choice in SHAPING:
            if part[choice].nunique() < 2:
                continue
            groups = part.groupby(choice)["delta"].agg(["mean", "size"])
            between = float(np.average((groups["mean"] - part["delta"].mean()) ** 2, weights=groups["size"]))
            share = between / total if total > 0 else math.nan
            found.append({**dict(zip(ROW, row, strict=True)), "choice": choice, "share": share})
    return pd.DataFrame(found, columns=[*ROW, "choice", "share"])


def levels(specifications: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """Compare the levels of each choice over all rows and specifications.

    Returns
    -------
    DataFrame
        ``benefit``, ``choice``, ``level``, ``specifications``, ``median_size`` (median of |δ|), ``significant``
        (share with p < alpha among those with a p and variation in both groups).
    """
    found = []
    for benefit, choice in product(BENEFITS, CHOICES):
        rows = specifications[(specifications["benefit"] == benefit) & (specifications[choice] != "")]
        for level, part in rows.groupby(choice, sort=False):
            tested = part[part["p"].notna() & ~part["constant"]]
            found.append(
                {
                    "benefit": benefit,
                    "choice": choice,
                    "level": level,
                    "specifications": len(part),
                    "median_size": float(part["delta"].abs().median()),
                    "significant": float((tested["p"] < alpha).mean()) if len(tested) else math.nan,
                }
            )
    return pd.DataFrame(found)
