"""Serves the text of a checkpoint over stdin and stdout, one JSON object per line.

The first line is {"ready": true}; of a GGUF file it answers {"metadata": {KEY: VALUE, ..}}, what the file says of its
tokenizer. Requests and replies:
    {"encode": {"texts": [..], "chat": false}}                                          {"ids": [[..], ..]}
    {"begin": {"sequences": 1, "stops": [..], "end_tokens": [..], "chat": false}}       {"ready": true}
    {"push": {"tokens": [[..], ..]}}    {"pieces": [{"text": "..", "tokens": 3, "ended": false}, ..]}
    {"finish": {}}                                                                      {"texts": [..]}
What cannot be done is {"error": SENTENCE}, also in place of the first line. The end of stdin ends the process.
"""

import json
import os
import signal
import sys

from .files import InputError, first_line
from .session import Session


def answer(session, request):
    ((name, arguments),) = request.items()
    if name == "encode":
        return {"ids": session.encode(**arguments)}
    if name == "push":
        return {"pieces": session.push(**arguments)}
    if name == "finish":
        return {"texts": session.finish()}
    session.begin(**arguments)
    return {"ready": True}


def attempt(work):
    """What `work` returns, or the reply with its error. A panic of tokenizers is no Exception."""
    try:
        return work()
    except InputError as error:
        return {"error": str(error)}
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {first_line(error)}"}


def session_of(path, requests):
    return Session(path, json.loads(next(requests))["metadata"] if os.path.isfile(path) else None)


def main(path):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches this process too
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no reply

    def reply(value):
        line = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        replies.write(line + b"\n")
        replies.flush()

    session = attempt(lambda: session_of(path, requests))
    if isinstance(session, dict):
        return reply(session)
    reply({"ready": True})
    for line in requests:
        reply(attempt(lambda: answer(session, json.loads(line))))


main(sys.argv[1])
