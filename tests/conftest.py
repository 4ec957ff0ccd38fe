"""What all tests share: the folder of other people's data beside the checkout, and how hypothesis runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# Derandomised, so that a red run is red again; without deadline, since continuous integration is slow at times.
settings.register_profile("fairnb", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("fairnb")


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder ``shared`` beside the checkout; a test that needs it skips where it is not there."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "data").is_dir():
        pytest.skip("needs the folder `shared` with other people's data beside the checkout")
    return folder
