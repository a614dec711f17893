"""A crowd at the door of a broker that runs: what the system does for those who come from elsewhere."""

import socket
import sys
import threading
from collections import deque
from pathlib import Path

import pytest

from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.broker_process import Kohort, eventually
from tests.support.wire import Wire

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems drop nothing"),
]


def test_one_address_that_knocks_without_end_keeps_nobody_else_from_logging_in(tmp_path: Path):
    """Where nobody is accepted for a while it fills the queue; the system drops what it sends, and the others come."""
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="b";'
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": line,
        "kohort.unauthenticated.percentage": 1,
    }
    told = threading.Event()

    def knock(port: int) -> None:
        """Five thousand times a second or so; what is not answered is forgotten, and others come."""
        knocking: deque[socket.socket] = deque()
        while not told.is_set():
            knocking.append(socket.socket())
            knocking[-1].bind(("127.0.0.2", 0))
            knocking[-1].setblocking(False)
            knocking[-1].connect_ex(("127.0.0.1", port))
            if len(knocking) > 300:
                knocking.popleft().close()
        for one in knocking:
            one.close()

    with Kohort(tmp_path, settings) as broker:
        crowd = threading.Thread(target=knock, args=[int(broker.address.rpartition(":")[2])])
        crowd.start()
        try:
            eventually(lambda: "addresses_kept_away addresses=127.0.0.2" in broker.log(), what="a crowd kept away")
            for _ in range(20):
                with Wire(broker.address) as wire:
                    assert not wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code
                    assert not wire.call(SaslAuthenticateRequest(auth_bytes=b"\0bob\0b"), 2).error_code
        finally:
            told.set()
            crowd.join()
