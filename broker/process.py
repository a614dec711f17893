"""The running program: put the broker together, open its doors, and end it.

Start: bind the ports (so that one in use is known before a file is touched), take the directory, read what is in it,
accept. End: read no further, let what is owed leave, close the logs, mark the directory clean.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING

from broker.composition import Composition
from broker.config.listener_settings import check_own
from broker.config.listeners import Listener, host_and_port, parse_listeners
from broker.handlers.dispatch import HANDLERS, Routes
from broker.http.listener import NAME, HttpRefused, check_log_in, tls_of
from broker.http.listener import bound as bound_http
from broker.loop import logs
from broker.loop.collector import Collector
from broker.loop.loop_runtime import CLOCK_CHECK_MS, LoopRuntime
from broker.loop.machine_memory import anonymous_bytes, memory_limit_bytes
from broker.loop.machine_processors import processors
from broker.loop.process_age import ms_since_process_start
from broker.loop.running import tree_and_interpreter
from broker.network.binding import bind
from broker.network.memory import LEAST_BYTES, NO_BOUND, Shares, follow
from broker.network.securities import Securities
from broker.network.server import Server
from broker.network.tls_watch import TlsWatch
from broker.security.directory_mode import close_to_others
from protocol.records.batch import DECOMPRESSED_LIMIT_BYTES
from storage.errors import CorruptFile, DirectoryRefused, StorageError
from storage.log.partition_log import SHARED_TAIL

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from broker.config.settings import Settings
    from broker.config.settings_sources import Sources
    from broker.network.tls_channel import TlsChannel
    from broker.network.tls_settings import TlsSide

log = logs.get_logger(__name__)

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of <malloc.h>
_SMALL_BYTES = 1 << 30  # of memory, below which less is kept for later
_SMALL_RECEIVE_BYTES = 32_768  # what a new connection's first read can bring before it can be held back
_HTTP_BACKLOG = 50
_SWITCH_INTERVAL_S = 0.0002
_POLLS_WITH = 2  # processors: on one alone the loop would look while its clients cannot ask
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
    for key, lines in sources.repeated.items():
        log.warning("setting_repeated", key=key, lines=",".join(map(str, lines)), line_that_counts=lines[-1])
    raise_descriptor_limit()
    _check_memory(settings)
    listeners = parse_listeners(settings)
    http_tls = tls_of(settings)
    check_log_in(settings)
    for key in check_own(settings, [*(listener.name for listener in listeners), *([] if http_tls is None else [NAME])]):
        log.warning("unknown_setting", key=key)
    secured = Securities(settings, listeners)
    if any(listener.protocol.sasl for listener in listeners):
        close_to_others(settings)
    asks_over_http = http_tls is not None or settings.kohort_http_token or settings.kohort_http_basic_auth
    if asks_over_http or any(listener.protocol.sasl or listener.protocol.tls for listener in listeners):
        leave_no_core_dump()
    bound = bind_listeners(settings, listeners)
    http_sockets = _bind_http(settings)
    runtime = LoopRuntime.create()
    try:
        composition = open_composition(settings, runtime, bound, secured)
        return _run(composition, runtime, bound, (http_sockets, http_tls), secured)
    finally:
        runtime.close()  # else the exit would wait for a child that cleans


def _run(
    composition: Composition,
    runtime: LoopRuntime,
    bound: list[tuple[Listener, list[socket.socket]]],
    http: tuple[list[socket.socket], TlsSide | None],
    secured: Securities,
) -> int:
    broker = composition.broker
    broker.served = HANDLERS.keys()
    max_bytes, shares = _memory(broker.settings)
    broker.partitions.checks.limit_bytes = min(DECOMPRESSED_LIMIT_BYTES, shares.decompressed)
    broker.partitions.look_room.limit_bytes = broker.partitions.checks.limit_bytes
    secured.open(runtime, broker)
    server = Server(broker, Routes(HANDLERS), shares, secured.by_name)
    ending = _Ending(composition, runtime, server)
    http_sockets, http_tls = http
    watch = TlsWatch(runtime, secured.by_name.values())
    if http_tls is not None:
        watch.sides.append(http_tls)
    watch.start()
    server.listen(runtime, [(listener.name, sock) for listener, sockets in bound for sock in sockets])
    composition.start()
    _follow_wall_clock(runtime)
    collector = Collector(runtime, lambda: len(server.memory.slots) > 0)
    collector.calm()
    if max_bytes:
        SHARED_TAIL.limit_bytes = min(SHARED_TAIL.limit_bytes, max_bytes // 16)
        follow(server.memory, runtime, max_bytes, anonymous_bytes, collector.look_at_everything)
    _keep_freed_memory(max_bytes)
    runtime.busy_polling.allow(_busy_poll_ns(broker.settings))
    # How long a thread that reads a long request or looks into a batch keeps the loop from going on. The loop asks for
    # its turn at every callback, so that with Python's five milliseconds ten requests would wait for fifty.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)

    def ready() -> None:
        # Inside the loop: uvloop loses a signal that comes while a handler is set and no loop runs.
        runtime.on_signals((signal.SIGTERM, signal.SIGINT), ending.begin)
        if watch.sides:
            runtime.on_signals((signal.SIGHUP,), watch.reload)
        addresses = " and ".join(_address(listener, sockets) for listener, sockets in bound)
        took_ms = ms_since_process_start()
        tree, interpreter = tree_and_interpreter()
        print(f"kohort ready on {addresses} in {took_ms} ms ({tree}, {interpreter})", flush=True)
        if http_sockets:
            runtime.next_turn(lambda: ending.on_stop.append(_serve_http(composition, runtime, server, *http)))

    broker.catalogue.queue.on_intruder = ending.give_up
    runtime.soon(ready)
    runtime.run()
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
    composition: Composition,
    runtime: LoopRuntime,
    server: Server,
    sockets: list[socket.socket],
    tls: TlsSide | None,
) -> Callable[[], None]:
    """Open the HTTP listener, which a start need not wait for; what is returned ends it."""
    from broker.http.app import App  # noqa: PLC0415  after the ready line
    from broker.http.server import HttpServer, loader  # noqa: PLC0415

    app = App(composition.broker, server, composition.log_manager)
    http = HttpServer(runtime, loader(app))
    host, port = sockets[0].getsockname()[:2]

    def encrypted() -> TlsChannel:
        # The event loop's own TLS would shake hands and decrypt for as long as a stranger sends.
        from broker.network.tls_channel import TlsChannel  # noqa: PLC0415  few starts need it

        assert tls is not None
        return TlsChannel(http.protocol(), server, tls)

    def listening() -> None:
        scheme = "http" if tls is None else "https"
        print(f"kohort metrics on {scheme}://{host_and_port(host, port)}/metrics", flush=True)

    for sock in sockets:
        told = listening if sock is sockets[0] else _nothing
        runtime.listen_while_running(sock, http.protocol if tls is None else encrypted, _HTTP_BACKLOG, told)

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


def bind_listeners(settings: Settings, listeners: list[Listener]) -> list[tuple[Listener, list[socket.socket]]]:
    """Every listener with its sockets, not listening yet. Raises: StartFailed."""
    bound = []
    send, receive = settings.socket_send_buffer_bytes, settings.socket_receive_buffer_bytes
    if receive < 0 and 0 < settings.kohort_memory_max_bytes < _SMALL_BYTES:
        receive = _SMALL_RECEIVE_BYTES
    for listener in listeners:
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


def open_composition(
    settings: Settings,
    runtime: LoopRuntime,
    bound: list[tuple[Listener, list[socket.socket]]],
    secured: Securities,
) -> Composition:
    """The broker of a directory, behind the listeners that are bound. Raises: SettingsError, StartFailed."""
    endpoints = [
        (listener.name, listener.advertised_host, listener.advertised_port or sockets[0].getsockname()[1])
        for listener, sockets in bound
    ]
    try:
        return Composition.open(
            settings, runtime, endpoints, {listener.name: listener.protocol for listener, _ in bound}, secured
        )
    except (CorruptFile, DirectoryRefused, StorageError) as error:
        raise StartFailed(str(error)) from None
    except OSError as error:
        place = settings.log_dirs[0] if error.filename is None else error.filename
        raise StartFailed(f"cannot use {place}: {(error.strerror or str(error)).lower()}") from None


def _address(listener: Listener, sockets: list[socket.socket]) -> str:
    return host_and_port(listener.host or "*", sockets[0].getsockname()[1])


def raise_descriptor_limit() -> None:
    """As many open files as the machine allows: segments and connections are many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def leave_no_core_dump() -> None:
    """Keys and passwords would lie in it. One byte: but for this limit Linux hands a dump to who gathers them."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if hard == 0 else 1, hard))


def _follow_wall_clock(runtime: LoopRuntime) -> None:
    runtime.follow_wall_clock()
    next_ms = runtime.now_ms() + CLOCK_CHECK_MS
    runtime.timers.set(("process", "clock"), next_ms, lambda: _follow_wall_clock(runtime))


def _memory(settings: Settings) -> tuple[int, Shares]:
    """What the process may have (0: unknown, and nothing is bounded), and what of it is for whom."""
    max_bytes = settings.kohort_memory_max_bytes or memory_limit_bytes() * 3 // 4
    if not max_bytes:
        return 0, NO_BOUND
    return max_bytes, Shares.of(max_bytes, anonymous_bytes())


def _check_memory(settings: Settings) -> None:
    """Raises: StartFailed, before anything is opened."""
    least_bytes = anonymous_bytes() + LEAST_BYTES
    if 0 < settings.kohort_memory_max_bytes < least_bytes:
        raise StartFailed(
            f"kohort.memory.max.bytes={settings.kohort_memory_max_bytes} is too little: with nothing loaded and nobody "
            f"connected at least {least_bytes} are needed"
        )


def _busy_poll_ns(settings: Settings) -> int:
    """A container that has used up its quota stands still until the next period: looks would use it up."""
    return settings.kohort_busy_poll_us * 1_000 if processors() >= _POLLS_WITH else 0


def _keep_freed_memory(max_bytes: int) -> None:
    """Let the allocator keep what it frees, up to a bound, instead of giving it back at once.

    Every read of a large request makes an object of up to 256 KiB. glibc maps and unmaps such pieces, so that each page
    of each is cleared and faulted in anew: a request of 100 KB cost 90 us of CPU so, and 18 us when pieces are kept.
    """
    try:
        import ctypes  # noqa: PLC0415  4 ms, after everything else is ready

        mallopt = ctypes.CDLL(None).mallopt
    except (ImportError, OSError, AttributeError):
        return  # another libc has other habits
    small = 0 < max_bytes < _SMALL_BYTES
    mallopt(_M_MMAP_THRESHOLD, 1024 * 1024 if small else 8 * 1024 * 1024)
    mallopt(_M_TRIM_THRESHOLD, 4 * 1024 * 1024 if small else 32 * 1024 * 1024)
    if small:
        mallopt(_M_ARENA_MAX, 2)  # each thread would keep what it has freed for itself
