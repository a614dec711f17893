"""Do those who are connected notice TLS handshakes? A quiet client's heartbeats beside hellos, by the broker's key.

A process with a low priority makes so many connections a second, says a whole TLS hello on each, reads the broker's
signed answer and goes. Beside it a quiet client, without TLS, has a heartbeat every two milliseconds.
"""

import contextlib
import datetime
import multiprocessing
import os
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from benchmarks.common import Row, arguments, machine, median, show
from benchmarks.crowd import hello
from benchmarks.hostile import heartbeats
from tests.support.broker_process import Kohort, free_port

KEYS = ("EC P-256", "RSA 2048", "RSA 4096")


def pem(kind: str) -> bytes:
    """A key of this kind and a certificate of its own."""
    key = (
        ec.generate_private_key(ec.SECP256R1())
        if kind.startswith("EC")
        else rsa.generate_private_key(65_537, int(kind.split()[1]))
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=90))
    certificate = builder.sign(key, hashes.SHA256())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)


def say_hello(port: int, rate: int, made: "multiprocessing.sharedctypes.Synchronized[int]", end: Event) -> None:
    """So often a second, until the end."""
    os.nice(10)
    words = hello()
    due = time.monotonic()
    while not end.is_set():
        due = max(due + 1 / rate, time.monotonic() - 0.1)
        time.sleep(max(due - time.monotonic(), 0))
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 10) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.sendall(words)
            one.recv(65_536)
            made.value += 1


@contextlib.contextmanager
def beside(port: int, rate: int) -> Iterator["multiprocessing.sharedctypes.Synchronized[int]"]:
    """Hellos come; yields how many were answered, a counter."""
    context = multiprocessing.get_context("spawn")
    end, made = context.Event(), context.Value("L")
    process = context.Process(target=say_hello, args=(port, rate, made, end), daemon=True)
    process.start()
    while not made.value:
        time.sleep(0.02)
    try:
        yield made
    finally:
        end.set()
        process.join(20)
        process.kill()


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rate", type=int, default=100, help="hellos a second (100)")
    parser.add_argument("--seconds", type=float, default=5, help="how long heartbeats are sent (5)")
    options = parser.parse_args()
    rows = []
    for kind in KEYS:
        with tempfile.TemporaryDirectory(prefix="kohort-bench-") as folder:
            (Path(folder) / "server.pem").write_bytes(pem(kind))
            broker = Kohort(Path(folder) / "broker", {"kohort.unauthenticated.percentage": 100})
            port = free_port()
            broker.settings |= {
                "listeners": f"PLAINTEXT://{broker.address},SSL://127.0.0.1:{port}",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": Path(folder) / "server.pem",
            }
            with broker:
                heartbeats(broker.address, 1)
                rows.append(_row(f"heartbeat, no hellos, {kind}", heartbeats(broker.address, options.seconds), ""))
                with beside(port, options.rate) as made:
                    heartbeats(broker.address, 1)
                    before, began = made.value, time.monotonic()
                    times_ms = heartbeats(broker.address, options.seconds)
                    came = (made.value - before) / (time.monotonic() - began)
                rows.append(_row(f"heartbeat, hellos, {kind}", times_ms, f", {came:.0f} hellos/s"))
    print(f"\n{machine()}\n")
    show(rows, options)


def _row(what: str, times_ms: list[float], more: str) -> Row:
    row = Row(what, "ms", figures={"kohort": median(times_ms)})
    row.notes["kohort"] = f"p99 {times_ms[len(times_ms) * 99 // 100]:.1f}, longest {times_ms[-1]:.1f}{more}"
    return row


if __name__ == "__main__":
    main()
