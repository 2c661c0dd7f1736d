"""Runs a reference: python3 run_reference.py JOB, a JSON file with the function and the files of its tensors."""
import importlib.util
import inspect
import json
import sys

import numpy as np


def fail(sentence):
    sys.exit(sentence)


with open(sys.argv[1]) as file:
    job = json.load(file)
spec = importlib.util.spec_from_file_location("reference", job["file"])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
function = getattr(module, job["function"])
given = {t["name"]: np.fromfile(t["path"]).reshape(t["shape"]) for t in job["inputs"]} | job["numbers"]
parameters = inspect.signature(function).parameters.values()
for p in parameters:
    if p.name not in given and p.default is p.empty:
        fail(f"its parameter '{p.name}' is no input, dim or scalar; there are {', '.join(given)}")
result = function(**{p.name: given[p.name] for p in parameters if p.name in given})
names = [t["name"] for t in job["outputs"]]
if not isinstance(result, dict):
    result = result if isinstance(result, tuple) else (result,)
    if len(result) != len(names):
        fail(f"it returns {len(result)} instead of {len(names)} outputs, a tuple or dict of {', '.join(names)}")
    result = dict(zip(names, result))
elif set(result) != set(names):
    fail(f"it returns a dict of {', '.join(map(str, result)) or 'nothing'} instead of {', '.join(names)}")
for t in job["outputs"]:
    values = np.asarray(result[t["name"]])
    if values.dtype.kind not in "biuf":
        fail(f"it returns '{t['name']}' of type {values.dtype} instead of real numbers")
    if list(values.shape) != t["shape"]:
        fail(f"it returns '{t['name']}' of shape {list(values.shape)} instead of {t['shape']}")
    np.ascontiguousarray(values, dtype=np.float64).tofile(t["path"])
