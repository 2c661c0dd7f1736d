"""Runs a reference: python3 run_reference.py JOB, a JSON file with the function and the files of its tensors."""
import importlib.util
import inspect
import json
import sys

import numpy as np

with open(sys.argv[1]) as file:
    job = json.load(file)
spec = importlib.util.spec_from_file_location("reference", job["file"])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
function = getattr(module, job["function"])
given = {t["name"]: np.fromfile(t["path"]).reshape(t["shape"]) for t in job["inputs"]} | job["numbers"]
result = function(**{name: given[name] for name in inspect.signature(function).parameters})
names = [t["name"] for t in job["outputs"]]
if not isinstance(result, dict):
    result = dict(zip(names, result if isinstance(result, tuple) else (result,)))
for t in job["outputs"]:
    values = np.asarray(result[t["name"]], dtype=np.float64)
    if list(values.shape) != t["shape"]:
        sys.exit(f"it returns '{t['name']}' of shape {list(values.shape)} instead of {t['shape']}")
    np.ascontiguousarray(values).tofile(t["path"])
