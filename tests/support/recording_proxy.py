"""A broker that records what it is sent: a proxy in front of one, which clients are told is its address."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from protocol.api_keys import ApiKey
from protocol.frames import read_request_header
from protocol.registry import APIS

# Reads, and nothing that could make a topic or change a group.
HARMLESS = {
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.FIND_COORDINATOR,
    ApiKey.LIST_GROUPS,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
}


@dataclass
class Recorder:
    """Within its `with`, connections to `address` reach `upstream`, and each request is kept in `requests`.

    `upstream` may be set after the start: a broker that advertises this address is started when it is known.
    """

    upstream: tuple[str, int] = ("127.0.0.1", 0)
    requests: list[tuple[ApiKey, int, Any]] = field(default_factory=list)  # API, version, the decoded request

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @property
    def address(self) -> str:
        """host:port for a client."""
        return f"127.0.0.1:{self.port}"

    def named(self, api: ApiKey) -> list[tuple[int, Any]]:
        """(version, request) of each request of an API."""
        return [(version, request) for key, version, request in self.requests if key == api]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self.upstream)
            except OSError:
                return
            threading.Thread(target=self._record, args=(client, broker), daemon=True).start()
            threading.Thread(target=_pass_on, args=(broker, client), daemon=True).start()

    def _record(self, client: socket.socket, broker: socket.socket) -> None:
        data = b""
        try:
            while chunk := client.recv(65536):
                data += chunk
                while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4]):
                    size = 4 + int.from_bytes(data[:4])
                    self._keep(data[:size])
                    broker.sendall(data[:size])
                    data = data[size:]
        except OSError:
            pass
        finally:
            client.close()
            broker.close()

    def _keep(self, frame: bytes) -> None:
        key, version, _, _, position = read_request_header(frame)
        api = ApiKey(key)
        request: Any = None
        if key in APIS and APIS[key].request.VERSIONS[0] <= version <= APIS[key].request.VERSIONS[1]:
            # Some clients send bytes behind a request, which brokers take for granted.
            request = APIS[key].request.decode(version, frame, position, strict=False)
        self.requests.append((api, version, request))


def _pass_on(broker: socket.socket, client: socket.socket) -> None:
    try:
        while chunk := broker.recv(65536):
            client.sendall(chunk)
    except OSError:
        pass
    finally:
        client.close()


def creates(recorder: Recorder, *, has_groups: bool) -> list[str]:
    """What among the requests could have made something."""
    found = [key.name for key, _, _ in recorder.requests if key not in HARMLESS]
    for version, request in recorder.named(ApiKey.METADATA):
        if request.topics and (version < 4 or request.allow_auto_topic_creation):
            found.append(f"METADATA {[topic.name for topic in request.topics]}")
    # The first question for a coordinator makes `__consumer_offsets`, or `__transaction_state`, which is in no test.
    for _, request in recorder.named(ApiKey.FIND_COORDINATOR):
        if not has_groups or request.key_type:
            found.append(f"FIND_COORDINATOR {request.key_type}")
    return found
