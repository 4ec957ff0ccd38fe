"""A reproducible companion to two papers on the fairness of LLM recommenders."""

__version__ = "0.1.0"

from fairnb.notebook import about
from fairnb.settings import PAPER, RELEASED, Experiment, Protocol

__all__ = ["PAPER", "RELEASED", "Experiment", "Protocol", "__version__", "about"]
