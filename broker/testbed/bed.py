"""One broker under test, from its opening to its close: it serves its clients, and does what the test says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.config.listener_settings import check_own
from broker.config.listeners import parse_listeners
from broker.config.settings_sources import gather
from broker.handlers.dispatch import HANDLERS, Routes
from broker.loop import logs
from broker.loop.testbed_runtime import TestbedRuntime
from broker.network.securities import Securities
from broker.process import bind_listeners, open_composition
from broker.testbed.auditing.tapped_server import TappedServer
from broker.testbed.channel import ChannelClosed
from broker.testbed.commands import COMMANDS
from broker.testbed.refused import Refused
from broker.testbed.watching import Watch
from protocol.errors import KafkaError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.testbed.auditing.tap import Audit
    from broker.testbed.channel import Channel
    from broker.testbed.disk import TestbedDisk

log = logs.get_logger(__name__)

_LOOK_EVERY_MS, _LOOKS = 2, 500


class Bed:
    """A broker that serves while `run` runs. Made on a directory, new or old."""

    def __init__(
        self,
        settings: Mapping[str, str],
        disk: TestbedDisk,
        clock: tuple[int, int | None] = (0, None),
        watch: Watch | None = None,
    ) -> None:
        """Open the directory and the listeners; `clock` is where that of its last life was, `watch` what that has seen.

        Raises: SettingsError, StartFailed, Refused.
        """
        sources = gather(None, {}, [f"{key}={value}" for key, value in settings.items()])
        if sources.unknown:
            raise Refused(f"there is no setting {', '.join(sources.unknown)}")
        listeners = parse_listeners(sources.settings)
        unknown = check_own(sources.settings, [listener.name for listener in listeners])
        if unknown:
            raise Refused(f"there is no setting {', '.join(unknown)}")
        secured = Securities(sources.settings, listeners)
        bound = bind_listeners(sources.settings, listeners)
        self.disk = disk
        self.directory = Path(sources.settings.log_dirs[0])
        self.runtime = runtime = TestbedRuntime.create()
        runtime.set_clock(*clock)
        try:
            self.composition = open_composition(sources.settings, runtime, bound, secured)
        except BaseException:
            runtime.close()
            for _, sockets in bound:
                for sock in sockets:
                    sock.close()
            raise
        self.broker = broker = self.composition.broker
        broker.served = HANDLERS.keys()
        secured.open(runtime, broker)
        self.watch = watch or Watch()
        self.watch.faults.bed = self
        if self.watch.audit is not None:
            self.watch.audit.watch(broker)
        routes = Routes(self.watch.over(HANDLERS))
        self.server = TappedServer(broker, routes, lambda: self.watch.audit, secured.by_name)
        self.server.listen(runtime, [(listener.name, sock) for listener, sockets in bound for sock in sockets])
        self.composition.start()
        self.address = str(next(iter(broker.endpoints.values())))
        self._when_closed: Callable[[], None] | None = None
        self._unanswered = 0  # commands
        self.crashed = False
        self._loses_power = False

    @property
    def audit(self) -> Audit | None:
        """Its auditors, while chaos is at work."""
        return self.watch.audit

    def run(self, channel: Channel, opening: int | None) -> bool:
        """Answer the command `opening`, and serve until the test closes it; whether the test's process is there.

        Afterwards it may have `crashed`: the next one is to be opened on the directory.
        """
        alive = True

        def readable() -> None:
            nonlocal alive
            try:
                for words in channel.receive():
                    self._do(words, channel)
            except ChannelClosed:
                alive = False
                self.close(lambda: None)

        if opening is not None:
            self._when_read(lambda: channel.send({"id": opening, "is": {"address": self.address}}))
        self.runtime.on_readable(channel.sock, readable)
        channel.sock.setblocking(True)  # the loop has changed that; answers are written at once
        self.runtime.run()
        self.runtime.close()
        if self.crashed:
            self.composition.let_go()
            if self._loses_power:
                self.disk.take_back(self.directory)
        if alive and self._when_closed is not None:
            self._when_closed()
        return alive

    def _when_read(self, done: Callable[[], None]) -> None:
        """Once no log is read any more that was not closed in good order: a test need not wait for it."""
        if not self.broker.partitions.loading:
            done()
            return
        look_ms = self.runtime.now_ms() + _LOOK_EVERY_MS
        self.runtime.timers.set(("testbed", "read"), look_ms, lambda: self._when_read(done))

    def when_quiet(self, done: Callable[[], None], left: int = _LOOKS) -> None:
        """Once nothing is on its way to the disk."""
        if self.composition.quiet or not left:
            done()
            return
        look_ms = self.runtime.now_ms() + _LOOK_EVERY_MS
        self.runtime.timers.set(("testbed", "quiet"), look_ms, lambda: self.when_quiet(done, left - 1))

    def close(self, done: Callable[[], None]) -> None:
        """Stop in good order; `done` is called when nothing of it is left."""
        if self._when_closed is not None:
            return
        self._when_closed = done
        self.runtime.stop_listening()
        self.server.stop_reading()
        self.server.close_connections()
        self.composition.stop(lambda _: self.runtime.stop())

    def crash(self, *, power: bool = False) -> None:
        """Drop it where it stands, as SIGKILL does, or with `power` as a power failure: `run` returns."""
        if self._when_closed is not None or self.crashed:
            return
        if self._unanswered:
            # The test waits for an answer, which it would not get.
            look_ms = self.runtime.now_ms() + _LOOK_EVERY_MS
            self.runtime.timers.set(("testbed", "crash"), look_ms, lambda: self.crash(power=power))
            return
        self.crashed, self._loses_power = True, power
        self.runtime.stop_listening()
        for connection in list(self.server.connections):
            connection.abort()
        if self.watch.audit is not None:
            self.watch.audit.broker_died()
        self.runtime.stop()

    def shift(self, by_ms: int, done: Callable[[], None]) -> None:
        """Move the clock; `done()` when all that is due then has happened."""
        if self.watch.audit is not None:
            self.watch.audit.clock_moved(by_ms)
        self.runtime.shift(by_ms, lambda: self.when_quiet(done))

    def guarded(self, command: Callable[..., None], words: dict[str, Any], answer: Callable[[Any], None]) -> None:
        """Do it; what is wrong is its answer."""
        try:
            command(self, words, answer)
        except (Refused, KafkaError, StorageError, OSError) as error:
            answer(error if isinstance(error, Refused) else Refused(str(error)))
        except Exception as error:
            log.exception("testbed_command_failed", command=str(words.get("do")))
            answer(Refused(f"a fault of Kohort's own, see the broker's log: {error!r}"))

    def _do(self, words: dict[str, Any], channel: Channel) -> None:
        def answer(result: Any) -> None:
            self._unanswered -= 1
            told = {"refused": str(result)} if isinstance(result, Refused) else {"is": result}
            channel.send({"id": words["id"], **told})

        self._unanswered += 1
        if words["do"] == "close":
            self.close(lambda: answer(None))
        else:
            self.guarded(COMMANDS[words["do"]], words, answer)
