"""1,000 bootstrap replicates of 18 group means: the plain loop against the vectorised form, in one run.

The plain loop draws one `np.random.choice` a replicate and group, as the released code does.
"""

import time
from collections.abc import Callable

import numpy as np

from fairnb import seeds, statistics

REPLICATES = 1000
SCENARIOS = 9
GROUPS = {"Male": 45, "Female": 35}
ROUNDS = 7


def values() -> dict[str, np.ndarray]:
    """Make hit rates of two groups of users in nine scenarios."""
    rng = seeds.generator("benchmark", "bootstrap")
    return {group: rng.integers(0, 4, size=(n, SCENARIOS)) / 3 for group, n in GROUPS.items()}


def plain(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draw each replicate of each group mean by itself."""
    result = {}
    for group, matrix in data.items():
        means = np.empty((REPLICATES, SCENARIOS))
        for scenario in range(SCENARIOS):
            column = matrix[:, scenario]
            for replicate in range(REPLICATES):
                means[replicate, scenario] = np.random.choice(column, size=len(column)).mean()  # noqa: NPY002
        result[group] = means
    return result


def vectorised(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draw all of them with `fairnb.statistics.bootstrap_means`."""
    return {
        group: statistics.bootstrap_means(matrix, REPLICATES, seeds.generator("bootstrap", group))
        for group, matrix in data.items()
    }


def best(function: Callable[[dict[str, np.ndarray]], object], data: dict[str, np.ndarray], rounds: int) -> float:
    """Return the shortest of several runs, in seconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function(data)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print both times and their ratio, and that both estimate the same spread."""
    data = values()
    slow, fast = best(plain, data, 3), best(vectorised, data, ROUNDS)
    spreads = [np.concatenate(list(form(data).values()), axis=1).std() for form in (plain, vectorised)]
    print(f"plain loop {slow * 1e3:.1f} ms, vectorised {fast * 1e3:.2f} ms: {slow / fast:.0f} times faster (aim: 50)")
    print(f"standard deviation of the means: {spreads[0]:.4f} and {spreads[1]:.4f}")


if __name__ == "__main__":
    main()
