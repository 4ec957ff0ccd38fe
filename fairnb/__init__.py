"""A reproducible companion to two papers on the fairness of LLM recommenders."""

__version__ = "0.1.0"
