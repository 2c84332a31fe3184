"""The paper in twenty lines: its cohort, its policy, its baselines, and the cost of fairness."""

import warnings

import softfair as sf

warnings.simplefilter("ignore", sf.NotConverged)  # a few episodes of Algorithm 1 are enough to see
cohort = sf.datasets.synthetic(n=100, seed=0)
setting = {"k": 10, "horizon": 50}
policies = [
    sf.NoIntervention(),
    sf.Random(),
    sf.Myopic(),
    sf.Oracle(),
    sf.SoftFair(c=9, solver="paper", design="successive", episodes=60),
    sf.SoftFair(c=9),
]
table = sf.compare(policies, cohort, **setting, runs=20)
print(table[["policy", "benefit", "entropy", "never_selected"]].round(2).to_string())
curve = sf.frontier(cohort, **setting, cs=[0, 1, 5, 10, 50], runs=20)
print(curve[["c", "benefit", "entropy", "never_selected"]].round(2))
print(*sf.theory.verdicts(quick=True, claims=["theorem-1", "entropy-kn"]), sep="\n")
