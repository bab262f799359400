"""moto's server: ``motoserver.py PORT`` is ``python -m moto.server`` with one repair.

werkzeug, which serves it, answers ``Expect: 100-continue`` twice: once itself, once by what it
inherits from http.server. The AWS SDK for Java takes the second for the answer to its request, so
that Spark could not write. Runs as a plain script: it imports nothing of ours.
"""

from __future__ import annotations

import sys

from moto.moto_server.werkzeug_app import MotoRequestHandler
from moto.server import main


def _leave_to_werkzeug(handler: MotoRequestHandler) -> bool:
    return True  # what http.server takes for "go on with the request"


if __name__ == "__main__":
    MotoRequestHandler.handle_expect_100 = _leave_to_werkzeug  # type: ignore[assignment, method-assign]
    main(["-H", "127.0.0.1", "-p", sys.argv[1]])
