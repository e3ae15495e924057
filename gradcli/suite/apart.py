"""Run a job in a worker process of this process: what an executor calls on another machine."""

import json
import threading

from gradcli.reports.decode import decoded
from gradcli.suite.job import Job
from gradcli.suite.pool import Pool

_LOCAL = threading.local()  # a worker ends with the thread that started it


def run_apart(text: str) -> str:
    """Return the answer to a job, both as JSON. The check cannot end this process, and its time limit holds."""
    if getattr(_LOCAL, "pool", None) is None:
        _LOCAL.pool = Pool(1)
    ((_, answer),) = _LOCAL.pool.run([decoded(Job, json.loads(text))])
    return str(answer.text())
