"""Planted truths: simulations that measure what the estimators of `harness.stats` achieve."""
