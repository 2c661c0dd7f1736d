"""Proposes the change points of time series over stdin and stdout, one JSON object per line.

    {"series": [[us, ..], ..], "spread": [0.0015, ..], "min_runs": 3}        {"changes": [[index, ..], ..]}

An index is that of the first value after a change. `spread` is the least standard deviation of a series, as a fraction.
What cannot be done is {"error": SENTENCE}.
"""

import json
import math
import sys

from ..text.files import InputError, need

PENALTY = 6  # times log(n), for squared errors in units of the variance: three times BIC's, proposals are few


def changes(numpy, ruptures, us, spread, min_runs):
    """PELT (Killick et al. 2012) on logarithms, whose noise is measured from one value to the next."""
    logs = numpy.log(numpy.asarray(us, dtype=float))
    if len(logs) < 2 * min_runs:
        return []
    steps = numpy.diff(logs)
    deviation = 1.4826 * numpy.median(numpy.abs(steps - numpy.median(steps))) / math.sqrt(2)
    signal = (logs - numpy.median(logs)) / max(spread, deviation)
    search = ruptures.KernelCPD(kernel="linear", min_size=min_runs).fit(signal.reshape(-1, 1))
    return [int(end) for end in search.predict(pen=PENALTY * math.log(len(logs)))[:-1]]


def answer(request):
    numpy, ruptures = need("numpy", of="history"), need("ruptures", of="history")
    series = zip(request["series"], request["spread"], strict=True)
    return {"changes": [changes(numpy, ruptures, us, spread, request["min_runs"]) for us, spread in series]}


for line in sys.stdin:
    try:
        reply = answer(json.loads(line))
    except InputError as error:
        reply = {"error": str(error)}
    print(json.dumps(reply), flush=True)
