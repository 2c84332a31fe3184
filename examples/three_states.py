"""Arms of three states in two groups: from a data frame to a list, and the rates of groups."""

import numpy as np
import pandas as pd

import softfair as sf

# Made up: bad, fair and good health. Help moves people up; the south moves up less by itself.
rng = np.random.default_rng(0)
n, states = 60, ("bad", "fair", "good")
south = np.arange(n) % 3 == 0
frame = pd.DataFrame(
    {"id": [f"P{i:02d}" for i in range(n)], "group": np.where(south, "south", "north")}
)
for action in (0, 1):
    for s in range(3):
        up = np.clip(
            rng.normal(0.1 + 0.3 * action, 0.05, n) - 0.05 * south * (1 - action), 0.01, 0.9
        )
        down = rng.uniform(0.02, 0.08, n)
        row = np.zeros((n, 3))
        row[:, min(s + 1, 2)] += up
        row[:, max(s - 1, 0)] += down
        row[:, s] += 1 - up - down
        for t in range(3):
            frame[f"p_{action}_{s}_{t}"] = row[:, t]
frame["reward_0"], frame["reward_1"], frame["reward_2"] = 0.0, 0.6, 1.0
frame["start"] = rng.integers(0, 3, n)
frame["village"] = rng.choice(["A", "B"], n)  # an extra column: kept, but not used

cohort = sf.Cohort.from_frame(frame)
print(cohort, "with", ", ".join(cohort.extra))
fitted = sf.SoftFair(c=10).fit(cohort, k=6, horizon=26)
week = fitted.draw(0, frame["start"], np.random.default_rng(1))
for i in week:
    print(cohort.ids[i], states[frame["start"][i]], cohort.groups[i])
result = sf.simulate(fitted, runs=50)
helps = result.to_frame()
print(helps.groupby("group")["helps"].mean().round(2))
even = sf.EvenHanded(mu=30.0, by="group").fit(cohort, k=6, horizon=26)
print(sf.simulate(even, runs=50).to_frame().groupby("group")["helps"].mean().round(2))
