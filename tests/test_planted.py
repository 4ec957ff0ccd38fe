"""What is planted in the simulated recommender is what the method finds in `sample`: nothing, some, more."""

import pytest
from scipy.stats import wilcoxon

from fairnb import fairness, generation, profiles, scoring, statistics
from fairnb.settings import Experiment

PLAIN = {"sim_bias": "", "sim_noise": 0.0, "sim_echo": 0.0, "sim_invented": 0.0, "sim_refusals": "", "repeats": 1}


@pytest.fixture(scope="module")
def drawn():
    one = Experiment.named("sample")
    selection = profiles.select_for(one, profiles.open_data(one))
    return selection, generation.grid_for(one, selection)


def benefits_of(drawn, grid=None, **dials):
    one = Experiment.named("sample", **{**PLAIN, **dials, "sim_format": "numbered"})
    selection, whole = drawn
    grid = whole if grid is None else grid
    replies = generation.simulate(one, grid)
    data = selection.dataset
    lists, rankings = scoring.rank(one, replies, grid, data.items, data.interactions)
    return one, scoring.score(lists, rankings, grid, selection.users, data.interactions, one.k, one.rules)


def test_a_planted_bias_is_found_by_nsd_and_grows_with_the_dial(drawn):
    _, whole = drawn
    grid = whole[whole["demographics"].isin(["none", "gender", "age"])]
    found = {}
    for dial in (0.0, 0.2, 0.5):
        one, benefits = benefits_of(drawn, grid, sim_bias=f"female={dial}" if dial else "")
        rows = fairness.table(benefits, one, (fairness.GENDER, fairness.AGE), ("NSD",))
        rows = rows[rows["benefit"] == "hit"]
        found[dial] = dict(list(rows.groupby("attribute")))
        told = found[dial]["gender"]
        print(
            f"dial {dial}: mean δ {told['delta'].mean():.4f}, from {told['delta'].min():.4f} to {told['delta'].max():.4f}; "
            f"p from {told['p'].min():.2g} to {told['p'].max():.2g}; q < 0.05 in {(told['q'] < 0.05).sum()} of {len(told)}"
        )
    # With every dial at 0 the words in the prompt change nothing at all.
    assert (found[0.0]["gender"]["delta"] == 0).all()
    # Men's lists stay, women's lose hits: δ = Male − Female is above 0 in every scenario, and more for more.
    for dial in (0.2, 0.5):
        assert (found[dial]["gender"]["delta"] > 0).all()
        assert (found[dial]["age"]["delta"] == 0).all()
    assert (found[0.5]["gender"]["delta"].mean() - found[0.2]["gender"]["delta"].mean()) > 0.01
    assert (found[0.5]["gender"]["q"] < 0.05).sum() >= 7


def test_a_knowledge_gap_is_seen_by_intrinsic_fairness(drawn):
    # Men of the sample play more rock than women do; a model that hardly knows it serves them less well.
    _, whole = drawn
    grid = whole[whole["demographics"] == "none"]
    rows, rates = {}, {}
    for dial in (0.0, 0.9):
        one, benefits = benefits_of(drawn, grid, sim_gap=f"rock={dial}" if dial else "")
        rows[dial] = fairness.intrinsic(benefits, one, (fairness.GENDER,))
        rates[dial] = benefits.groupby(["gender", "user"])["hit_rate"].mean()
        men, women, difference = rows[dial][["group1", "group2", "difference"]].mean()
        print(f"gap {dial}: mean HitRate@3 of men {men:.4f}, of women {women:.4f}, difference {difference:.4f}")
    lost = rates[0.0] - rates[0.9]
    between = statistics.permutation_test(
        *(lost[name].to_numpy() for name in ("Male", "Female")), resamples=10_000, root=1
    )
    within = wilcoxon(lost["Male"]).pvalue
    print(
        f"lost by men {lost['Male'].mean():.4f} (Wilcoxon p {within:.2g}), by women {lost['Female'].mean():.4f}; "
        f"men against women, permutation p {between:.2g}"
    )
    assert lost["Male"].mean() > 0.03 > lost["Female"].mean()
    assert within < 0.05
    assert rows[0.9]["difference"].mean() < rows[0.0]["difference"].mean() - 0.03
