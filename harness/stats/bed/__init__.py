"""Planted truths: simulations that measure what the estimators of `harness.stats` achieve.

`marginals` and `rows` draw requests whose truth is known, `peers` are intervals as others make
them, `tasks` score estimators case by case; `python -m harness.stats.bed` runs them. `breaks`,
`errors`, `limits`, `ratios`, `attribution` and `surfaces` are scripts that print their own tables.
"""
