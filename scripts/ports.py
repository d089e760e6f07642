"""Ports of the loopback interface for processes of tests, with the same claims as `free_port` of the crate `env`."""

import errno
import fcntl
import os
import random
import socket
import tempfile
from typing import BinaryIO

# Below those that systems give to outgoing connections.
FIRST, LAST = 10_240, 32_767
# Claims of this process, held until it ends.
_claims: list[BinaryIO] = []


def free_port() -> int:
    """Chooses a free port that no other caller on this machine gets while this process lives."""
    directory = os.path.join(tempfile.gettempdir(), "millrace-ports")
    os.makedirs(directory, exist_ok=True)
    first = random.randint(FIRST, LAST)
    for port in [*range(first, LAST + 1), *range(FIRST, first)]:
        claim = open(os.path.join(directory, str(port)), "ab")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("127.0.0.1", port))
        except OSError as error:
            claim.close()
            if error.errno not in (errno.EADDRINUSE, errno.EWOULDBLOCK):
                raise
            continue
        _claims.append(claim)
        return port
    raise OSError(errno.EADDRINUSE, "all ports for tests are taken")
