"""Fairness of a recommender over groups of users: NSD, NCSD, intrinsic fairness, and their levels.

Frames in, frames out. A benefit frame has one row per reply: ``user``, the users' group columns (such
as ``gender`` and ``age_group``), ``sampling``, ``icl``, ``counterfactual`` (no, yes), ``demographics``
(what the prompt states: none, gender, age, intersectional), ``status``, ``hit_rate``, ``average_rank``,
and optionally ``stated``, the value that a counterfactual prompt states; without that column an attribute
of two values is taken to be flipped.

Where a function takes attributes and is given none, those count that the evaluated prompts state.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pandas as pd

from fairnb import frames, seeds, statistics
from fairnb.errors import DataError, ParameterError, ProtocolError
from fairnb.profiles import age_labels
from fairnb.prompts import GROUP_COLUMN
from fairnb.settings import BENEFITS, ICLS, NOTIONS, SAMPLINGS, Experiment, Protocol

LEVELS = {1: "safe", 2: "attention needed", 3: "likely issue", 4: "significant issue"}
_COLUMN = {"hit": "hit_rate", "rank": "average_rank"}
_NEEDED = ("user", "sampling", "icl", "counterfactual", "demographics", "status")
# A δ of 0.1 may be stored as 0.0999...; cut-offs are meant in decimals.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Attribute:
    """A sensitive attribute: what users are grouped by, and which prompts state it.

    Attributes
    ----------
    name : str
        Such as ``gender``.
    columns : tuple of str
        Columns of the benefit frame; more than one for an intersection of attributes.
    demographics : str
        The value of the column ``demographics`` in the prompts that state it.
    values : tuple of str
        Groups in the order of the tables; empty for "as found, sorted".
    """

    name: str
    columns: tuple[str, ...]
    demographics: str
    values: tuple[str, ...] = ()

    def groups(self, frame: pd.DataFrame) -> pd.Series:
        """Name the group of each row; parts of an intersection are joined by ``" & "``."""
        for column in self.columns:
            if column not in frame.columns:
                raise DataError(
                    f"benefits: no column {column}; attribute {self.name} needs it; add it or choose another"
                )
        parts = [frame[column].astype("string") for column in self.columns]
        groups = parts[0]
        for part in parts[1:]:
            groups = groups + " & " + part
        strange = set(groups.dropna()) - set(self.values) if self.values else set()
        if strange:
            raise DataError(
                f"benefits: unknown group {min(strange)!r} of {self.name}; expected {', '.join(self.values)}"
            )
        return groups

    def order(self, groups: pd.Series) -> list[str]:
        """List the groups in the order of the tables."""
        present = set(groups.dropna())
        return [value for value in self.values if value in present] if self.values else sorted(present)


GENDER = Attribute("gender", ("gender",), "gender", ("Male", "Female"))
AGE = Attribute("age", ("age_group",), "age", ("Young", "Old"))
INTERSECTION = Attribute(
    "gender x age",
    ("gender", "age_group"),
    "intersectional",
    tuple(f"{gender} & {age}" for gender, age in product(GENDER.values, AGE.values)),
)
ATTRIBUTES = {attribute.name: attribute for attribute in (GENDER, AGE, INTERSECTION)}


def attributes_of(experiment: Experiment, benefits: pd.DataFrame) -> list[Attribute]:
    """List the attributes that the evaluated prompts state, with the groups found among the users.

    Parameters
    ----------
    experiment : Experiment
        Decides whose replies are evaluated; of a run, the settings it was carried out with count.
    benefits : DataFrame
        See the module's head.

    Returns
    -------
    list of Attribute
        In the order of the settings. Male stands before Female and Young before Old, age groups rise, any
        other groups are sorted. Last comes the intersection of all, if there is more than one.

    Raises
    ------
    DataError
        If the frame lacks the column of an attribute.
    """
    settings = frames.run_settings(experiment)
    single = [
        # The groups of the released users are known: another name among them is an error.
        ATTRIBUTES[name]
        if experiment.replies == "released" and name in ATTRIBUTES
        else _attribute(name, benefits, settings)
        for name in settings.stated
    ]
    if len(single) < 2:
        return single
    return [
        *single,
        Attribute(
            " x ".join(attribute.name for attribute in single),
            tuple(column for attribute in single for column in attribute.columns),
            INTERSECTION.demographics,
            tuple(" & ".join(values) for values in product(*(attribute.values for attribute in single))),
        ),
    ]


def single_attributes(experiment: Experiment, benefits: pd.DataFrame) -> list[Attribute]:
    """List the attributes without their intersection: those of Tables 2 and 4."""
    return [attribute for attribute in attributes_of(experiment, benefits) if len(attribute.columns) == 1]


def _attribute(name: str, benefits: pd.DataFrame, settings: Experiment) -> Attribute:
    column = GROUP_COLUMN.get(name, name)
    found = set(Attribute(name, (column,), name).groups(benefits).dropna())
    known = {
        "gender": GENDER.values,
        "age": tuple(age_labels(settings.cutoff_ages)) if settings.cutoff_ages else AGE.values,
    }.get(name, ())
    return Attribute(name, (column,), name, known if found <= set(known) else tuple(sorted(found)))


def without_group(benefits: pd.DataFrame, attribute: Attribute) -> int:
    """Count the users whom no comparison of an attribute can include, because their group is not known."""
    return int(benefits.loc[attribute.groups(benefits).isna(), "user"].nunique())


def deviations(benefits: pd.DataFrame, notion: str, attribute: Attribute, protocol: Protocol) -> pd.DataFrame:
    """Compute ΔB per user: the benefit of a list minus that of the neutral list.

    Parameters
    ----------
    benefits : DataFrame
        See the module's head.
    notion : {"NSD", "NCSD"}
        Sensitive or counterfactual sensitive against neutral.
    attribute : Attribute
        The attribute that the prompts state and that users are grouped by.
    protocol : Protocol
        ``ncsd_population``, ``neutral_reference`` and ``failed_reply`` are used.

    Returns
    -------
    DataFrame
        ``user``, ``group``, ``sampling``, ``icl``, ``benefit`` (hit, rank), ``value`` (ΔB; for hit in
        [-1, 1] and positive where the list improved; for rank in [1-K, K-1] or, with ranks of 0,
        [-K, K], and positive where hits moved DOWN), ``excluded`` (empty, or why value is NaN).
        For NSD the group is the user's own; for NCSD it is the value that the prompt states.

    Raises
    ------
    ParameterError
        For an unknown notion.
    ProtocolError
        If NCSD is asked of an attribute with other than two values and the frame does not say, in a
        column ``stated``, which one a prompt states.

    Notes
    -----
    FairEvalLLM, eqs 1-3.
    """
    if notion not in NOTIONS:
        raise ParameterError(f"notion = {notion!r}: expected one of {', '.join(NOTIONS)}")
    _require(benefits, BENEFITS)
    known = benefits.assign(group=attribute.groups(benefits))
    known = known[known["group"].notna()]
    reference = _neutral(known, protocol)
    sensitive = known[(known["demographics"] == attribute.demographics) & (known["counterfactual"] == "no")]
    if notion == "NSD":
        stated = sensitive
    else:
        flipped = known[(known["demographics"] == attribute.demographics) & (known["counterfactual"] == "yes")]
        if "stated" in flipped.columns:
            # Where the stated value is the user's own, the reply is the sensitive one over again.
            flipped = flipped[flipped["stated"] != flipped["group"]]
            strange = set(flipped["stated"].dropna()) - set(attribute.values or known["group"])
            if strange:
                raise DataError(
                    f"benefits, column stated: unknown group {min(strange)!r} of {attribute.name}; "
                    f"expected {', '.join(attribute.values or sorted(set(known['group'])))}"
                )
            flipped = flipped.assign(group=flipped["stated"])
        else:
            flipped = flipped.assign(group=flipped["group"].map(_flip(attribute, known)))
        stated = flipped if protocol.ncsd_population == "flipped" else pd.concat([flipped, sensitive])
    key = ["user", "sampling", "icl"]
    pairs = stated.merge(reference[[*key, "status", *_COLUMN.values()]], on=key, how="left", suffixes=("", "_ref"))
    parts = [_deviation(pairs, benefit, protocol) for benefit in BENEFITS]
    return pd.concat(parts, ignore_index=True)


def _require(benefits: pd.DataFrame, names: Sequence[str]) -> None:
    """Check that a benefit frame has the columns that the benefits need."""
    for name in names:
        if name not in _COLUMN:
            raise ParameterError(f"benefit = {name!r}: expected one of {', '.join(_COLUMN)}")
    for column in (*_NEEDED, *(_COLUMN[name] for name in names)):
        if column not in benefits.columns:
            raise DataError(
                f"benefits: no column {column}; expected {', '.join(_NEEDED)} and the benefit; was it renamed?"
            )


def _neutral(benefits: pd.DataFrame, protocol: Protocol) -> pd.DataFrame:
    neutral = benefits[benefits["demographics"] == "none"]
    if protocol.neutral_reference == "factual-neutral":
        return neutral[neutral["counterfactual"] == "no"]
    # A neutral prompt states nothing that could be flipped: both replies answer the same text.
    first = neutral.sort_values("counterfactual", kind="stable")
    return first.drop_duplicates(["user", "sampling", "icl"]).sort_index()


def _flip(attribute: Attribute, benefits: pd.DataFrame) -> dict[str, str]:
    opposite: dict[str, str] = {}
    parts = []
    for column in attribute.columns:
        single = next((a for a in ATTRIBUTES.values() if a.columns == (column,)), None)
        values = single.values if single else tuple(sorted(benefits[column].dropna().unique()))
        if len(values) != 2:
            raise ProtocolError(
                f"NCSD of {attribute.name}: column {column} has {len(values)} values and "
                f"counterfactual = yes does not say which one was stated; add a column stated"
            )
        parts.append(dict(zip(values, reversed(values), strict=True)))
    for values in product(*parts):
        opposite[" & ".join(values)] = " & ".join(part[value] for part, value in zip(parts, values, strict=True))
    return opposite


def _deviation(pairs: pd.DataFrame, benefit: str, protocol: Protocol) -> pd.DataFrame:
    column = _COLUMN[benefit]
    value = pairs[column] - pairs[f"{column}_ref"]
    excluded = pd.Series("", index=pairs.index, dtype="string")
    absent = pairs["status_ref"].isna()
    failed = (pairs["status"] != "ok") | (pairs["status_ref"] != "ok")
    if protocol.failed_reply == "exclude":
        excluded = excluded.mask(failed, "failed reply")
    excluded = excluded.mask(absent, "no neutral reply")
    excluded = excluded.mask(excluded.eq("") & value.isna(), "no hit in one of the lists")
    frame = pairs[["user", "group", "sampling", "icl"]].copy()
    return frame.assign(benefit=benefit, value=value.where(excluded.eq("")), excluded=excluded)


def level(delta: float, p: float, cutoffs: tuple[float, float], alpha: float = 0.05) -> int | None:
    """Assign one of the four levels of Table 1.

    Parameters
    ----------
    delta : float
        δ, the difference of the group means of ΔB.
    p : float
        NaN for a difference that could not be tested; it then is judged by its size.
    cutoffs : tuple of float
        (small, large), compared with |δ|.
    alpha : float
        Level of the test.

    Returns
    -------
    int or None
        4 (significant issue) if p < alpha; else 1 (safe) if |δ| < small, 2 (attention needed) if
        |δ| < large, 3 (likely issue) otherwise. None if δ is NaN.

    Notes
    -----
    FairEvalLLM, Table 1, which says "small", "fairly large" and "large" without numbers: the cut-offs
    are this project's.
    """
    if math.isnan(delta):
        return None
    if p < alpha:
        return 4
    small, large = cutoffs
    size = abs(delta) + _ROUNDING
    return 1 if size < small else 2 if size < large else 3


def compare(frame: pd.DataFrame, groups: Sequence[str], experiment: Experiment, benefit: str) -> dict[str, object]:
    """Compare the values of two groups with everything that stands beside a difference.

    Parameters
    ----------
    frame : DataFrame
        ``user``, ``group``, ``value`` (NaN: excluded), ``excluded``.
    groups : sequence of two str
        δ is the first minus the second.
    experiment : Experiment
        Level, cut-offs, resamples, seed, smallest group, protocol.
    benefit : {"hit", "rank"}
        Chooses the cut-offs.

    Returns
    -------
    dict
        ``group1_name``, ``group2_name``, ``group1``, ``group2`` (means), ``delta``, ``low``, ``high``
        (bootstrap interval of δ), ``n1``, ``n2``, ``excluded1``, ``excluded2`` (users), ``excluded``
        (reasons with counts), ``p`` (the protocol's test), ``p_student``, ``p_welch``, ``p_permutation``,
        ``p_mannwhitney``, ``hedges_g``, ``g_low``, ``g_high``, ``ssnd``, ``ssnr``, ``snsr``, ``snsv``,
        ``level``, ``note``.

    Notes
    -----
    FairEvalLLM, section 2.2 and eqs 8 and 9. A group with fewer than ``min_group`` users is described and
    neither tested nor given a level. A group in which nobody's value differs makes the note "no variation"
    and never level 4: such a p rests on a variance of 0.
    """
    name1, name2 = groups
    if benefit not in _COLUMN:
        raise ParameterError(f"benefit = {benefit!r}: expected one of {', '.join(_COLUMN)}")
    # What is drawn at random is dealt out by position: the order must be the users' own.
    order = np.argsort(frame["user"].to_numpy(), kind="stable")
    group, user, excluded = (frame[column].to_numpy(dtype=object)[order] for column in ("group", "user", "excluded"))
    value = frame["value"].to_numpy(dtype=float)[order]
    members = [group == name for name in groups]
    used = [member & np.isfinite(value) for member in members]
    x, y = (value[part] for part in used)
    both = np.concatenate([x, y])
    delta = statistics.settled(statistics.mean(x) - statistics.mean(y))
    small = [name for name, values in zip(groups, (x, y), strict=True) if values.size < experiment.min_group]
    constant = [
        name for name, values in zip(groups, (x, y), strict=True) if values.size > 1 and statistics.no_variation(values)
    ]
    notes = [f"n < {experiment.min_group} in {name}: described, not tested" for name in small]
    notes += [f"no variation in {name}" for name in constant if name not in small]

    users1, users2 = (user[part].tolist() for part in used)
    place2 = {user: place for place, user in enumerate(users2)}
    pairs = [(place, place2[user]) for place, user in enumerate(users1) if user in place2]
    tests = _tests(x, y, experiment, pairs, tested=not small)
    low, high = (
        (math.nan, math.nan) if small else _interval_of_difference(users1, x, users2, y, experiment, (name1, name2))
    )
    p = tests[f"p_{experiment.rules.test}"]
    counts = Counter(reason for member in members for reason in excluded[member] if reason)
    ranges = [statistics.spread(values) for values in (both, [statistics.mean(x), statistics.mean(y)])]
    result: dict[str, object] = {
        "group1_name": name1,
        "group2_name": name2,
        "group1": statistics.mean(x),
        "group2": statistics.mean(y),
        "delta": delta,
        "low": low,
        "high": high,
        "n1": x.size,
        "n2": y.size,
        "excluded1": int(members[0].sum()) - x.size,
        "excluded2": int(members[1].sum()) - y.size,
        "excluded": "; ".join(f"{reason}: {count}" for reason, count in sorted(counts.items())),
        "p": p,
        **tests,
        "ssnd": ranges[0][0],
        "ssnr": math.sqrt((statistics.variance(x, 0) + statistics.variance(y, 0)) / 2),
        "snsr": ranges[1][0] if x.size and y.size else math.nan,
        "snsv": ranges[1][1] if x.size and y.size else math.nan,
        "level": None
        if small
        else level(delta, math.nan if constant else p, experiment.cutoffs[benefit], experiment.alpha),
        "note": "; ".join(notes),
    }
    return result


def _tests(
    x: np.ndarray, y: np.ndarray, experiment: Experiment, pairs: Sequence[tuple[int, int]] = (), *, tested: bool
) -> dict[str, float]:
    """Run the tests that stand beside every difference, and its effect size; NaN where not tested."""
    names = ("p_student", "p_welch", "p_permutation", "p_mannwhitney", "hedges_g", "g_low", "g_high")
    if not tested:
        return dict.fromkeys(names, math.nan)
    permutation = statistics.permutation_test(
        x, y, resamples=experiment.permutations, root=experiment.seed, pairs=pairs
    )
    values = (
        statistics.t_test(x, y, "student"),
        statistics.t_test(x, y, "welch"),
        permutation,
        statistics.mann_whitney(x, y),
        *statistics.hedges_g(x, y),
    )
    return dict(zip(names, values, strict=True))


def _interval_of_difference(
    users1: list[int],
    x: np.ndarray,
    users2: list[int],
    y: np.ndarray,
    experiment: Experiment,
    names: tuple[str, str],
) -> tuple[float, float]:
    """Percentile interval of the difference of means; users that stand in both groups are drawn as one."""
    if set(users1) & set(users2):
        users = sorted({*users1, *users2})
        place = {user: number for number, user in enumerate(users)}
        rng = seeds.generator("bootstrap", *names, root=experiment.seed)
        drawn = statistics.resample_counts(len(users), experiment.replicates, rng)
        weight1, weight2 = (drawn[:, [place[user] for user in part]] for part in (users1, users2))
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates = weight1 @ x / weight1.sum(axis=1) - weight2 @ y / weight2.sum(axis=1)
    else:
        means = [
            statistics.bootstrap_means(
                values, experiment.replicates, seeds.generator("bootstrap", name, root=experiment.seed)
            )
            for name, values in zip(names, (x, y), strict=True)
        ]
        replicates = means[0] - means[1]
    return statistics.percentile_interval(replicates)


def table(
    benefits: pd.DataFrame,
    experiment: Experiment,
    attributes: Sequence[Attribute] | None = None,
    notions: Sequence[str] = NOTIONS,
) -> pd.DataFrame:
    """Compute NSD and NCSD over all scenarios: the rows of Table 2.

    Parameters
    ----------
    benefits : DataFrame
        See the module's head.
    experiment : Experiment
        Its protocol decides populations, references and the test.
    attributes : sequence of Attribute
        An attribute with more than two groups gives one row per pair of groups.
    notions : sequence of str

    Returns
    -------
    DataFrame
        One row per attribute, notion, sampling, ICL style, benefit and pair of groups: these six, what
        `compare` returns, ``without_group`` (users whose group is not known), and ``q``:
        Benjamini-Hochberg over ALL rows of the table with a p (the family).
    """
    attributes = single_attributes(experiment, benefits) if attributes is None else attributes
    rows = []
    for attribute, notion in product(attributes, notions):
        delta = deviations(benefits, notion, attribute, experiment.rules)
        order, absent = attribute.order(delta["group"]), without_group(benefits, attribute)
        by_scenario = dict(list(delta.groupby(["sampling", "icl", "benefit"], sort=False)))
        for sampling, icl, benefit, pair in product(SAMPLINGS, ICLS, BENEFITS, combinations(order, 2)):
            part = by_scenario.get((sampling, icl, benefit), delta.iloc[:0])
            head = {
                "attribute": attribute.name,
                "notion": notion,
                "icl": icl,
                "sampling": sampling,
                "benefit": benefit,
            }
            rows.append({**head, **compare(part, pair, experiment, benefit), "without_group": absent})
    if not rows:
        raise DataError(
            f"benefits: nothing to compare in {', '.join(a.name for a in attributes) or 'no attribute'}; "
            f"expected users of at least two groups"
        )
    result = pd.DataFrame(rows)
    result["level"] = result["level"].astype("Int64")
    return result.assign(q=statistics.benjamini_hochberg(result["p"]))


def omnibus(benefits: pd.DataFrame, experiment: Experiment, attribute: Attribute, notion: str) -> pd.DataFrame:
    """Test all groups of an attribute at once, per scenario and benefit.

    Returns
    -------
    DataFrame
        ``attribute``, ``notion``, ``icl``, ``sampling``, ``benefit``, ``groups`` (how many were tested),
        ``left_out`` (groups under ``min_group``, with n), ``snsr``, ``snsv`` (range and population SD of
        the tested groups' means; eqs 8 and 9 for any number of groups), ``p_anova``, ``p_kruskal``, ``q_kruskal``
        (Benjamini-Hochberg over the frame's rows), ``without_group`` (users whose group is not known).
    """
    delta = deviations(benefits, notion, attribute, experiment.rules)
    rows = []
    for sampling, icl, benefit in product(SAMPLINGS, ICLS, BENEFITS):
        part = delta[(delta["sampling"] == sampling) & (delta["icl"] == icl) & (delta["benefit"] == benefit)]
        values = {
            name: part.loc[(part["group"] == name) & part["value"].notna(), "value"]
            for name in attribute.order(delta["group"])
        }
        tested = [group for group in values.values() if len(group) >= experiment.min_group]
        left_out = [f"{name} (n = {len(group)})" for name, group in values.items() if len(group) < experiment.min_group]
        head = {
            "attribute": attribute.name,
            "notion": notion,
            "icl": icl,
            "sampling": sampling,
            "benefit": benefit,
        }
        result = statistics.omnibus(tested)
        snsr, snsv = statistics.spread([statistics.mean(group) for group in tested])
        row = {"groups": len(tested), "left_out": "; ".join(left_out), "snsr": snsr, "snsv": snsv}
        rows.append({**head, **row, **result._asdict()})
    frame = pd.DataFrame(rows)
    q = statistics.benjamini_hochberg(frame["p_kruskal"])
    return frame.assign(q_kruskal=q, without_group=without_group(benefits, attribute))


def _neutral_values(
    benefits: pd.DataFrame, attribute: Attribute, protocol: Protocol, benefit: str
) -> tuple[pd.DataFrame, pd.Series]:
    """Return users x scenarios of the neutral ranker's benefit, and the users' groups."""
    _require(benefits, [benefit])
    neutral = _neutral(benefits.assign(group=attribute.groups(benefits)), protocol)
    neutral = neutral[neutral["group"].notna()]
    value = neutral[_COLUMN[benefit]]
    if protocol.failed_reply == "exclude":
        value = value.where(neutral["status"] == "ok")
    wide = neutral.assign(value=value).pivot(index="user", columns=["sampling", "icl"], values="value")
    return wide, neutral.drop_duplicates("user").set_index("user")["group"].reindex(wide.index)


def intrinsic(
    benefits: pd.DataFrame,
    experiment: Experiment,
    attributes: Sequence[Attribute] | None = None,
    benefit: str = "hit",
) -> pd.DataFrame:
    """Compare the neutral ranker's benefit between groups, per scenario: the rows of Table 4.

    Parameters
    ----------
    benefits : DataFrame
        See the module's head.
    experiment : Experiment
        ``replicates`` bootstrap samples of users within groups; ``permutations``; the protocol.
    attributes : sequence of Attribute
        More than two groups give a row per pair.
    benefit : {"hit", "rank"}

    Returns
    -------
    DataFrame
        ``attribute``, ``sampling``, ``icl``, ``group1_name``, ``group2_name``, ``n1``, ``n2``, ``group1``,
        ``group2`` (group means; under ``bootstrap-means`` the mean of the bootstrap means, which differs by
        Monte Carlo error), ``mean1``, ``mean2`` (the plain group means), ``error1``, ``error2`` (that Monte
        Carlo standard error, SD of replicates over √replicates), ``difference``, ``ci_low``, ``ci_high``
        (95 % percentile interval), ``p_permutation``, ``p_student``, ``p_welch``, ``p_mannwhitney``,
        ``p_bootstrap_means`` (Welch on the two sets of bootstrap means, the released code's test; its n is
        the number of replicates, not of users, so it falls towards 0 as replicates are added),
        ``hedges_g``, ``without_group`` (users whose group is not known), ``q`` (over the rows), ``note``.

    Notes
    -----
    FairEvalLLM, section 4, "Intrinsic Fairness", and Table 4.
    """
    attributes = single_attributes(experiment, benefits) if attributes is None else attributes
    rows = []
    for attribute in attributes:
        wide, group = _neutral_values(benefits, attribute, experiment.rules, benefit)
        order, absent = attribute.order(group), without_group(benefits, attribute)
        for sampling, icl in product(SAMPLINGS, ICLS):
            values = wide[sampling, icl] if (sampling, icl) in wide.columns else pd.Series(math.nan, wide.index)
            part = {name: values[(group == name) & values.notna()].to_numpy(dtype=float) for name in order}
            drawn = {
                name: statistics.bootstrap_means(
                    part[name],
                    experiment.replicates,
                    seeds.generator("bootstrap", attribute.name, name, root=experiment.seed),
                )
                for name in order
            }
            for pair in combinations(order, 2):
                head = {"attribute": attribute.name, "sampling": sampling, "icl": icl}
                rows.append({**head, **_intrinsic_row(pair, part, drawn, experiment), "without_group": absent})
    if not rows:
        raise DataError("benefits: nothing to compare; expected neutral replies of users of at least two groups")
    frame = pd.DataFrame(rows)
    return frame.assign(q=statistics.benjamini_hochberg(frame["p_permutation"]))


def _intrinsic_row(
    pair: tuple[str, str],
    values: Mapping[str, np.ndarray],
    drawn: Mapping[str, np.ndarray],
    experiment: Experiment,
) -> dict[str, object]:
    x, y = (values[name] for name in pair)
    bootstrap1, bootstrap2 = (drawn[name] for name in pair)
    means = [statistics.mean(x), statistics.mean(y)]
    shown = means
    if experiment.rules.intrinsic == "bootstrap-means" and x.size and y.size:
        shown = [statistics.mean(bootstrap1), statistics.mean(bootstrap2)]
    low, high = statistics.percentile_interval(bootstrap1 - bootstrap2)
    small = [name for name in pair if values[name].size < experiment.min_group]
    constant = [name for name in pair if values[name].size > 1 and statistics.no_variation(values[name])]
    notes = [f"n < {experiment.min_group} in {name}: described, not tested" for name in small]
    notes += [f"no variation in {name}" for name in constant if name not in small]
    root_r = math.sqrt(experiment.replicates)
    return {
        "group1_name": pair[0],
        "group2_name": pair[1],
        "n1": x.size,
        "n2": y.size,
        "group1": shown[0],
        "group2": shown[1],
        "mean1": means[0],
        "mean2": means[1],
        "error1": math.sqrt(statistics.variance(bootstrap1, 1)) / root_r,
        "error2": math.sqrt(statistics.variance(bootstrap2, 1)) / root_r,
        "difference": statistics.settled(shown[0] - shown[1]),
        "ci_low": math.nan if small else low,
        "ci_high": math.nan if small else high,
        **_tests(x, y, experiment, tested=not small),
        "p_bootstrap_means": math.nan if small else statistics.t_test(bootstrap1, bootstrap2, "welch"),
        "note": "; ".join(notes),
    }


def targets(
    benefits: pd.DataFrame,
    experiment: Experiment,
    attributes: Sequence[Attribute] | None = None,
    benefit: str = "hit",
) -> pd.DataFrame:
    """Measure how far the neutral ranker's benefit is from a target distribution over groups.

    Two questions, per scenario. ``proportional``: does each group get a share of all benefit,
    b_g = Σ_{u in g} B / Σ B, equal to its share of users, n_g / n? ``uniform``: do the groups' MEAN
    benefits have equal shares, m_g / Σ m = 1 / |G|?

    Returns
    -------
    DataFrame
        ``attribute``, ``target``, ``sampling``, ``icl``, ``shares`` and ``target_shares`` (group: share),
        ``total_variation`` and ``jensen_shannon`` (distances in [0, 1], 0 = on target; NaN if nobody has
        any benefit) with ``tv_low``, ``tv_high``, ``js_low``, ``js_high`` (percentile intervals over users
        within groups; a distance cannot be negative, so its interval lies above 0 even for equal groups)
        and ``tv_p``, ``js_p`` (permutation of group labels), ``note``, ``without_group`` (users whose group is
        not known).

    Notes
    -----
    FairEvalLLM, section 4: "uniform distribution" and "proportional distribution" as targets.
    """
    attributes = single_attributes(experiment, benefits) if attributes is None else attributes
    rows = []
    for attribute in attributes:
        wide, group = _neutral_values(benefits, attribute, experiment.rules, benefit)
        order, absent = attribute.order(group), without_group(benefits, attribute)
        if not order:
            continue
        for target, (sampling, icl) in product(("proportional", "uniform"), product(SAMPLINGS, ICLS)):
            head = {"attribute": attribute.name, "target": target, "sampling": sampling, "icl": icl}
            values = wide[sampling, icl] if (sampling, icl) in wide.columns else pd.Series(math.nan, wide.index)
            known = values.notna()
            distance = _distance(values[known], group[known], order, target, experiment)
            rows.append({**head, **distance, "without_group": absent})
    if not rows:
        raise DataError("benefits: nothing to compare; expected neutral replies of users whose group is known")
    return pd.DataFrame(rows)


def _distance(
    values: pd.Series, group: pd.Series, order: list[str], target: str, experiment: Experiment
) -> dict[str, object]:
    number = values.to_numpy(dtype=float)
    member = np.stack([(group == name).to_numpy() for name in order]).astype(float)
    sizes = member.sum(axis=1)
    goal = sizes / sizes.sum() if target == "proportional" and sizes.sum() else np.full(len(order), 1 / len(order))

    def shares(sums: np.ndarray) -> np.ndarray:
        amount = sums if target == "proportional" else sums / sizes
        total = amount.sum(axis=-1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total > 0, amount / total, math.nan)

    with np.errstate(invalid="ignore", divide="ignore"):
        observed = shares(member @ number)
        drawn = np.stack(
            [
                statistics.bootstrap_means(
                    number[member[place] == 1],
                    experiment.replicates,
                    seeds.generator("bootstrap", "target", name, root=experiment.seed),
                )
                * sizes[place]
                for place, name in enumerate(order)
            ],
            axis=1,
        )
        replicated = shares(drawn)
        orders = statistics.shuffles(len(number), experiment.permutations, experiment.seed)
        permuted = shares(number[orders] @ member.T)
    row: dict[str, object] = {
        "shares": "; ".join(f"{name}: {share:.4f}" for name, share in zip(order, observed, strict=True)),
        "target_shares": "; ".join(f"{name}: {share:.4f}" for name, share in zip(order, goal, strict=True)),
    }
    small = [name for name, size in zip(order, sizes, strict=True) if size < experiment.min_group]
    note = f"n < {experiment.min_group} in {', '.join(small)}: described, not tested" if small else ""
    for name, short, distance in (
        ("total_variation", "tv", statistics.total_variation),
        ("jensen_shannon", "js", statistics.jensen_shannon),
    ):
        value = float(distance(observed, goal))
        low, high = statistics.percentile_interval(distance(replicated, goal))
        as_large = int((np.asarray(distance(permuted, goal)) >= value - 1e-9).sum())
        p = (as_large + 1) / (experiment.permutations + 1)
        tested = math.isfinite(value) and not small
        row |= {
            name: value,
            f"{short}_low": low if tested else math.nan,
            f"{short}_high": high if tested else math.nan,
            f"{short}_p": p if tested else math.nan,
        }
    return row | {"note": note if math.isfinite(float(np.sum(observed))) else "nobody has any benefit"}


def intrinsic_means(
    benefits: pd.DataFrame, experiment: Experiment, attribute: Attribute, benefit: str = "hit"
) -> pd.DataFrame:
    """Compute each group's mean benefit from the neutral ranker, with an interval of its own.

    Returns
    -------
    DataFrame
        ``attribute``, ``group``, ``sampling``, ``icl``, ``n``, ``mean``, ``low``, ``high`` (95 % percentile
        interval; NaN for a group under ``min_group``).
    """
    wide, group = _neutral_values(benefits, attribute, experiment.rules, benefit)
    rows = []
    for name, (sampling, icl) in product(attribute.order(group), product(SAMPLINGS, ICLS)):
        values = wide[sampling, icl] if (sampling, icl) in wide.columns else pd.Series(math.nan, wide.index)
        part = values[(group == name) & values.notna()].to_numpy(dtype=float)
        rng = seeds.generator("bootstrap", attribute.name, name, root=experiment.seed)
        low, high = statistics.percentile_interval(statistics.bootstrap_means(part, experiment.replicates, rng))
        tested = part.size >= experiment.min_group
        rows.append(
            {
                "attribute": attribute.name,
                "group": name,
                "sampling": sampling,
                "icl": icl,
                "n": part.size,
                "mean": statistics.mean(part),
                "low": low if tested else math.nan,
                "high": high if tested else math.nan,
            }
        )
    return pd.DataFrame(rows)


def repeat_noise(
    repeats: pd.DataFrame, experiment: Experiment, attributes: Sequence[Attribute] | None = None
) -> pd.DataFrame:
    """Measure how much a benefit changes when nothing changes but the asking.

    Parameters
    ----------
    repeats : DataFrame
        Replies to the neutral prompts, with a column ``repeat``: 0 for the first asking, 1 and more for the
        same text asked again.
    experiment : Experiment
        Its protocol decides about failed replies.
    attributes : sequence of Attribute, optional

    Returns
    -------
    DataFrame
        One row per attribute, scenario, benefit and pair of groups: ``attribute``, ``sampling``, ``icl``,
        ``benefit``, ``group1_name``, ``group2_name``, ``n`` (differences B(repeat j) - B(first asking) of the
        pair's users, over all repeats), ``sd`` (their standard deviation, divisor n - 1), ``mean_abs``,
        ``share_changed`` (in [0, 1]), ``delta`` (the largest |δ| between the groups over the repeats),
        ``note``. The four measures are at least 0; NaN with the note "asked once" where there is one asking
        only, and with the note "no two answers" where no user has two that count.
    """
    attributes = single_attributes(experiment, repeats) if attributes is None else attributes
    _require(repeats, BENEFITS)
    rows = []
    for attribute in attributes:
        known = repeats.assign(group=attribute.groups(repeats))
        known = known[known["group"].notna()]
        for sampling, icl in product(SAMPLINGS, ICLS):
            asked = known[(known["sampling"] == sampling) & (known["icl"] == icl)]
            again = asked[asked["repeat"] > 0]
            first = asked.loc[asked["repeat"] == 0, ["user", "status", *_COLUMN.values()]]
            pairs = again.merge(first, on="user", how="left", suffixes=("", "_ref"), validate="many_to_one")
            once = asked["repeat"].nunique() < 2
            for benefit in BENEFITS:
                change = _deviation(pairs, benefit, experiment.rules).assign(repeat=pairs["repeat"])
                change = change[change["value"].notna()]
                for pair in combinations(attribute.order(known["group"]), 2):
                    head = {"attribute": attribute.name, "sampling": sampling, "icl": icl, "benefit": benefit}
                    names = {"group1_name": pair[0], "group2_name": pair[1]}
                    rows.append({**head, **names, **_noise(change, pair, once=once)})
    columns = ["attribute", "sampling", "icl", "benefit", "group1_name", "group2_name"]
    return pd.DataFrame(rows, columns=[*columns, "n", "sd", "mean_abs", "share_changed", "delta", "note"])


def _noise(change: pd.DataFrame, pair: tuple[str, str], *, once: bool) -> dict[str, object]:
    part = change[change["group"].isin(pair)]
    size = part["value"].abs()
    means = part.groupby(["repeat", "group"])["value"].mean().unstack().reindex(columns=list(pair))
    gaps = (means[pair[0]] - means[pair[1]]).abs()
    return {
        "n": len(part),
        "sd": math.sqrt(statistics.variance(part["value"], 1)),
        "mean_abs": statistics.mean(size),
        "share_changed": statistics.mean(size > _ROUNDING),
        "delta": statistics.settled(float(gaps.max())),
        "note": "asked once" if once else "no two answers" if part.empty else "",
    }
