"""10,000 simulated experiments x 20 effects x 4 tests, against a loop that calls scipy's tests per experiment."""

import time

import numpy as np
from scipy import stats

from fairnb import power
from fairnb.exhibits.power import EFFECTS
from fairnb.power import Values

# About what ΔB of HitRate@3 looks like in the released replies.
NULL = Values(np.arange(-3, 4) / 3, np.array([0.002, 0.014, 0.062, 0.86, 0.052, 0.008, 0.002]))
N1, N2, PERMUTATIONS = 45, 35, 999
REPLICATES, PLAIN = 10_000, 10


def ours() -> None:
    power.rejections(NULL, EFFECTS, N1, N2, replicates=REPLICATES, permutations=PERMUTATIONS)


def plain(replicates: int) -> None:
    """Draw users and call scipy's four tests, one experiment at a time."""

    def gap(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
        return one.mean(axis=axis) - other.mean(axis=axis)

    rng = np.random.default_rng(1)
    for effect in EFFECTS:
        first = NULL.shifted(effect)
        for _ in range(replicates):
            x = rng.choice(first.support, N1, p=first.shares)
            y = rng.choice(NULL.support, N2, p=NULL.shares)
            if len(set(x) | set(y)) == 1:
                continue
            stats.ttest_ind(x, y)
            stats.ttest_ind(x, y, equal_var=False)
            stats.mannwhitneyu(x, y, method="asymptotic")
            stats.permutation_test((x, y), gap, n_resamples=PERMUTATIONS, vectorized=True, rng=rng)


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    ours_seconds = min(timed(ours) for _ in range(3))
    plain_seconds = timed(lambda: plain(PLAIN)) * REPLICATES / PLAIN
    print(
        f"power: {REPLICATES:,} experiments x {len(EFFECTS)} effects x 4 tests ({PERMUTATIONS} permutations) in "
        f"{ours_seconds:.1f} s (aim: 60); a loop over scipy's tests, {PLAIN} experiments an effect scaled up: {plain_seconds:,.0f} s; "
        f"{plain_seconds / ours_seconds:,.0f} times faster (aim: 30)"
    )


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore", RuntimeWarning)  # scipy on a group without variation
    main()
