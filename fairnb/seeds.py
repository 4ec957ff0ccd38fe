"""Named random generators: a result depends on its own name, never on what was computed before it."""

from __future__ import annotations

import hashlib
import operator

import numpy as np

ROOT_SEED = 20240502


def generator(*name: str | int, root: int = ROOT_SEED) -> np.random.Generator:
    """Return the generator that belongs to a name.

    Parameters
    ----------
    *name : str or int
        Parts of the name, from the general to the particular, such as
        ``"bootstrap", "gender", "Male"``. At least one. A numpy integer counts as the number it is.
    root : int, default ROOT_SEED
        The seed of the whole experiment; the same name under another root is another stream.

    Returns
    -------
    numpy.random.Generator
        A fresh PCG64 generator. Two calls with equal arguments give equal streams.

    Raises
    ------
    ValueError
        If no name is given: an anonymous stream would depend on the order of work.
    TypeError
        If a part is neither text nor a whole number.
    """
    if not name:
        raise ValueError("a generator needs a name, such as generator('bootstrap', 'gender')")
    parts = [str(part) if isinstance(part, str) else operator.index(part) for part in name]
    # Joined as text, ("a", "b") and ("ab",) or (1,) and ("1",) would share a stream.
    text = repr(tuple((type(part).__name__, part) for part in parts))
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    words = [int.from_bytes(digest[i : i + 4], "big") for i in range(0, 32, 4)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([root, *words])))
