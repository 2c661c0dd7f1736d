"""scikit-optimize (PyPI) chooses what warptune tries next: a strategy `command` (docs/search.md)."""

import json
import math
import sys

from skopt import Optimizer

space = json.loads(sys.stdin.readline())
configurations = space["configurations"]

# An axis per parameter, with the ranks of its values; the variant is the first.
rows = [{"variant": c["variant"], **c["parameters"]} for c in configurations]
names = list(dict.fromkeys(name for row in rows for name in row))
axes = {}
for name in names:
    values = {row.get(name) for row in rows}
    if len(values) > 1:
        axes[name] = sorted(values, key=lambda v: (v is None, isinstance(v, str), v))
points = [[axis.index(row.get(name)) for name, axis in axes.items()] for row in rows]
optimizer = Optimizer([(0, len(axis) - 1) for axis in axes.values()], n_initial_points=8, random_state=space["seed"])

untried = set(range(len(points)))
likely = list(space["likely"])
worst = 0.0
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "ask":  # several may come before the first tell
        chosen = None
        if likely:
            chosen = likely.pop(0)
        elif untried:
            # The optimizer knows no constraints: the nearest configuration that is legal and untried.
            wanted = optimizer.ask()
            chosen = min(sorted(untried), key=lambda i: sum((a - b) ** 2 for a, b in zip(points[i], wanted)))
        untried.discard(chosen)
        print(json.dumps({"id": chosen}), flush=True)
    else:  # tell; no time: it failed
        time = message["time_us"]
        worst = max(worst, math.log(time)) if time else worst
        optimizer.tell(points[message["id"]], math.log(time) if time else worst + 1)
