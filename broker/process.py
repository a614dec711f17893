"""The running program: put the broker together, open its doors, and end it.

Start: bind the ports (so that one in use is known before a file is touched), take the directory, read what is in it,
accept. End: read no further, let what is owed leave, close the logs, mark the directory clean.
"""

from __future__ import annotations

import errno
import gc
import os
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING

from broker import logs
from broker.composition import Composition
from broker.dispatch import HANDLERS, Routes
from broker.http.listener import HttpRefused
from broker.http.listener import bound as bound_http
from broker.listeners import Listener, bind, host_and_port, parse_listeners
from broker.runtime import CLOCK_CHECK_MS, LoopRuntime
from broker.server import Server
from storage.errors import CorruptFile, DirectoryRefused, StorageError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from broker.settings import Settings
    from broker.settings_sources import Sources

log = logs.get_logger()

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>
_HTTP_BACKLOG = 50
_STOP_WITHIN_MS = 500  # what is owed to clients gets so long; then their connections are closed all the same


class StartFailed(Exception):
    """The machine would not have it; the message is one sentence."""


def serve(sources: Sources, *, json_logs: bool) -> int:
    """Run the broker until a signal ends it; return the exit code.

    Raises: SettingsError, StartFailed.
    """
    settings = sources.settings
    logs.configure(json=json_logs or settings.kohort_log_format == "json", level=settings.kohort_log_level)
    for key in sources.unknown:
        log.warning("unknown_setting", key=key)
    _raise_descriptor_limit()
    bound = _bind(settings)
    http_sockets = _bind_http(settings)
    runtime = LoopRuntime.create()
    try:
        composition = _open(settings, runtime, bound)
    except BaseException:
        runtime.close()
        raise
    return _run(composition, runtime, bound, http_sockets)


def _run(
    composition: Composition,
    runtime: LoopRuntime,
    bound: list[tuple[Listener, list[socket.socket]]],
    http_sockets: list[socket.socket],
) -> int:
    broker = composition.broker
    broker.handlers = HANDLERS
    server = Server(broker, Routes(HANDLERS))
    ending = _Ending(composition, runtime, server)
    server.listen(runtime, [(listener.name, sock) for listener, sockets in bound for sock in sockets])
    composition.start()
    _follow_wall_clock(runtime)
    _calm_the_collector()
    _keep_freed_memory()

    def ready() -> None:
        # Inside the loop: uvloop loses a signal that comes while a handler is set and no loop runs.
        runtime.on_signals((signal.SIGTERM, signal.SIGINT), ending.begin)
        addresses = " and ".join(_address(listener, sockets) for listener, sockets in bound)
        print(f"kohort ready on {addresses} in {_ms_since_process_start()} ms", flush=True)
        if http_sockets:
            runtime.next_turn(lambda: ending.on_stop.append(_serve_http(composition, runtime, server, http_sockets)))

    broker.catalogue.on_intruder = ending.give_up
    runtime.soon(ready)
    runtime.run()
    runtime.close()
    return 0 if ending.clean and not ending.gave_up else 1


class _Ending:
    """The way down. A second signal while it is walked ends the process where it stands."""

    def __init__(self, composition: Composition, runtime: LoopRuntime, server: Server) -> None:
        self.clean = False
        self.gave_up = False
        self.on_stop: list[Callable[[], None]] = []
        self._composition = composition
        self._runtime = runtime
        self._server = server
        self._began = False
        self._deadline_ms = 0

    def begin(self) -> None:
        """A signal has come."""
        if self._began:
            print("kohort: ended at once by a second signal; the next start will recover the logs", file=sys.stderr)
            os._exit(1)
        self._began = True
        self._deadline_ms = self._runtime.now_ms() + _STOP_WITHIN_MS
        log.info("stopping")
        self._runtime.stop_listening()
        for callback in self.on_stop:
            callback()
        self._server.stop_reading()
        self._runtime.last(self._close_connections)

    def give_up(self, reason: str) -> None:
        """The directory is no longer ours alone: whoever goes on writing would spoil it for both."""
        if not self._began:
            log.error("directory_lost", reason=reason)
            self.gave_up = True
            self.begin()

    def _close_connections(self) -> None:
        if not self._composition.quiet and self._runtime.now_ms() < self._deadline_ms:
            # Answers that wait for an fsync leave as soon as it is done.
            deadline_ms = self._runtime.now_ms() + 2
            self._runtime.timers.set(("process", "stop"), deadline_ms, self._close_connections)
            return
        try:
            self._server.close_connections()
            self._composition.stop(self._stopped)
        except Exception:
            # Nothing is marked clean, so the next start looks at everything; but this one must end.
            log.exception("stop_failed")
            self._stopped(False)

    def _stopped(self, clean: bool) -> None:
        self.clean = clean
        log.info("stopped", clean=clean)
        self._runtime.stop()


def _serve_http(
    composition: Composition, runtime: LoopRuntime, server: Server, sockets: list[socket.socket]
) -> Callable[[], None]:
    """Open the HTTP listener, which a start need not wait for; what is returned ends it."""
    from broker.http.app import App, loader  # noqa: PLC0415  after the ready line
    from broker.http.server import HttpServer  # noqa: PLC0415

    app = App(composition.broker, server, composition.keeper)
    http = HttpServer(runtime, loader(app))
    host, port = sockets[0].getsockname()[:2]

    def listening() -> None:
        print(f"kohort metrics on http://{host_and_port(host, port)}/metrics", flush=True)

    for sock in sockets:
        runtime.listen_while_running(sock, http.protocol, _HTTP_BACKLOG, listening if sock is sockets[0] else _nothing)

    def end() -> None:
        app.stopping = True
        http.close()

    return end


def _nothing() -> None:
    """Said by the first socket already."""


def _bind_http(settings: Settings) -> list[socket.socket]:
    try:
        return bound_http(settings)
    except HttpRefused as error:
        raise StartFailed(str(error)) from None


def _bind(settings: Settings) -> list[tuple[Listener, list[socket.socket]]]:
    bound = []
    send, receive = settings.socket_send_buffer_bytes, settings.socket_receive_buffer_bytes
    for listener in parse_listeners(settings):
        try:
            bound.append((listener, bind(listener, send_buffer=send, receive_buffer=receive)))
        except OSError as error:
            place = host_and_port(listener.host or "*", listener.port)
            why = (error.strerror or str(error)).lower()
            advice = "name another address or port in listeners"
            if error.errno == errno.EADDRINUSE:
                advice = "stop what listens there, or name another port in listeners"
            raise StartFailed(f"cannot listen on {place}: {why}; {advice}") from None
    return bound


def _open(settings: Settings, runtime: LoopRuntime, bound: list[tuple[Listener, list[socket.socket]]]) -> Composition:
    endpoints = [
        (listener.name, listener.advertised_host, listener.advertised_port or sockets[0].getsockname()[1])
        for listener, sockets in bound
    ]
    try:
        return Composition.open(settings, runtime, endpoints)
    except (CorruptFile, DirectoryRefused, StorageError) as error:
        raise StartFailed(str(error)) from None
    except OSError as error:
        place = settings.log_dirs[0] if error.filename is None else error.filename
        raise StartFailed(f"cannot use {place}: {(error.strerror or str(error)).lower()}") from None


def _address(listener: Listener, sockets: list[socket.socket]) -> str:
    return host_and_port(listener.host or "*", sockets[0].getsockname()[1])


def _ms_since_process_start() -> int:
    """How long this process has been there, the interpreter's own start included."""
    try:
        with open("/proc/self/stat") as stat:  # noqa: PTH123  pathlib is slower, and this is the start
            started_ticks = int(stat.read().rpartition(")")[2].split()[19])
        since_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        return round((since_boot_s - started_ticks / os.sysconf("SC_CLK_TCK")) * 1_000)
    except (OSError, AttributeError):
        return round(time.process_time() * 1_000)  # no /proc: the processor time is near it


def _raise_descriptor_limit() -> None:
    """As many open files as the machine allows: segments and connections are many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _follow_wall_clock(runtime: LoopRuntime) -> None:
    runtime.follow_wall_clock()
    next_ms = runtime.now_ms() + CLOCK_CHECK_MS
    runtime.timers.set(("process", "clock"), next_ms, lambda: _follow_wall_clock(runtime))


def _calm_the_collector() -> None:
    """What was loaded lives as long as the process: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    # Requests leave no cycles behind, so a young collection finds nothing. But it holds the loop while it looks at what
    # is young, 0.2 to 0.8 us an object: 5,000 at a time, and at what is older as rarely as with 50,000.
    gc.set_threshold(5_000, 200, 100)


def _keep_freed_memory() -> None:
    """Let the allocator keep what it frees, up to a bound, instead of giving it back at once.

    Every read of a large request makes an object of up to 256 KiB. glibc maps and unmaps such pieces, so that each page
    of each is cleared and faulted in anew: a request of 100 KB cost 90 us of CPU so, and 18 us when pieces are kept.
    """
    try:
        import ctypes  # noqa: PLC0415  4 ms, after everything else is ready

        mallopt = ctypes.CDLL(None).mallopt
    except (ImportError, OSError, AttributeError):
        return  # another libc has other habits
    mallopt(_M_MMAP_THRESHOLD, 8 * 1024 * 1024)
    mallopt(_M_TRIM_THRESHOLD, 32 * 1024 * 1024)
