"""What all listeners ask of their peers, as the settings say now: at the start, and when AlterConfigs changes them.

A change has two steps. Before its record is written each listener that it touches is made as it would be then: what
cannot be is refused. When the settings have changed, the listener takes over what was made, for new connections and
log-ins; those that are there go on.

Source: Kafka's DynamicBrokerConfig (processListenerReconfigurable), SslFactory (CertificateEntries.ensureCompatible).
"""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from broker.config.config_def import ConfigType
from broker.config.listener_keys import base_of, is_of_listener, listener_of
from broker.config.listener_settings import ListenerSettings
from broker.config.setting_types import SettingsError
from broker.loop.logs import get_logger
from broker.network.listener_security import ListenerSecurity, warn_of_openness
from broker.security.directory_mode import check_closed
from storage.directory.log_directory import METADATA_FOLDER
from storage.errors import DirectoryRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.broker import Broker
    from broker.config.listeners import Listener
    from broker.config.settings import Settings
    from broker.loop.runtime import Runtime

log = get_logger(__name__)


class Securities:
    """Those of all listeners, `by_name`. Raises: SettingsError.

    Settings that do not go together may still be put right by what was changed while a broker ran. So where there is a
    metadata log they are refused by `take_over`, which has read it.
    """

    def __init__(self, settings: Settings, listeners: list[Listener]) -> None:
        self.by_name: dict[str, ListenerSecurity] = {}
        self._settings = settings
        self._listeners = listeners
        self._made: dict[str, ListenerSecurity] = {}  # for a change that is on its way
        self._wrong: SettingsError | None = None
        try:
            self._make_all(settings)
        except SettingsError as error:
            if not (Path(settings.metadata_log_dir or settings.log_dirs[0]) / METADATA_FOLDER).exists():
                raise
            self._wrong = error
        else:
            warn_of_openness(settings, listeners)

    def take_over(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Be as the directory's configs want it, of the cluster and of this broker, before anything is served.

        Raises: SettingsError, DirectoryRefused when it is these that cannot be.
        """
        settings = self._settings.with_overrides(cluster=cluster, broker=broker)
        changed = sorted(
            {
                key
                for listener in self._listeners
                for key, _ in _configured(settings, listener).items() ^ _configured(self._settings, listener).items()
            }
        )
        if not changed:
            if self._wrong is not None:
                raise self._wrong
            return
        try:
            self._make_all(settings)
        except SettingsError as error:
            raise DirectoryRefused(
                f"{error}: the directory holds {', '.join(changed)}, which were set while a broker ran; put right what "
                "they name, or delete them with Apache Kafka"
            ) from None
        if self._wrong is not None:
            warn_of_openness(settings, self._listeners)

    def open(self, runtime: Runtime, broker: Broker) -> None:
        """Begin to offer mechanisms, and to follow the settings."""
        catalogue = broker.catalogue
        for security in self.by_name.values():
            security.open(runtime, catalogue.scram_credential, broker.secret, catalogue.usual_credential)
        self._settings.on_change(self.apply)

    def check(self, cluster: Mapping[str, str], broker: Mapping[str, str], changed: set[str]) -> None:
        """Whether listeners could be so, of whose settings `changed` were. Raises: SettingsError, OtherCertificate."""
        settings = self._settings.with_overrides(cluster=cluster, broker=broker)
        every = {listener.name.lower(): listener for listener in self._listeners}
        touched = {listener_of(key) for key in changed if is_of_listener(key)}
        for key in sorted(changed):
            if not is_of_listener(key):
                touched = set(every)
            elif key in {**cluster, **broker}:
                if listener_of(key) not in every:
                    raise SettingsError(f"{key}: {listener_of(key).upper()} is not in listeners")
                if _is_secret(settings, key):
                    check_closed(settings)
        made = {every[name].name: ListenerSecurity(settings, every[name]) for name in sorted(touched & every.keys())}
        for name, security in made.items():
            self.by_name[name].check_next(security)
        self._made.update(made)

    def apply(self) -> None:
        """The settings have changed."""
        made, self._made = self._made, {}
        for listener in self._listeners:
            now, security = self.by_name[listener.name], made.get(listener.name)
            configured = _configured(self._settings, listener)
            if security is not None and (security.configured != configured or security.files_changed()):
                security = None
            if security is None:
                if configured == now.configured:
                    continue
                try:
                    security = ListenerSecurity(copy(self._settings), listener)
                    now.check_next(security)
                except SettingsError as error:
                    log.error("listener_not_changed", listener=listener.name, reason=str(error))
                    continue
            keys = sorted({key for key, _ in configured.items() ^ now.configured.items()})
            now.take(security)
            log.info("listener_changed", listener=listener.name, keys=keys)
            secret = [key for key in keys if is_of_listener(key) and _is_secret(self._settings, key)]
            if secret:
                log.warning("secret_in_clear_text", keys=secret, where="the metadata log")

    # ---

    def _make_all(self, settings: Settings) -> None:
        self.by_name.update({one.name: ListenerSecurity(settings, one) for one in self._listeners})


def _configured(settings: Settings, listener: Listener) -> dict[str, object]:
    return ListenerSettings(settings, listener.name).configured


def _is_secret(settings: Settings, key: str) -> bool:
    known = settings.definitions.get(base_of(key))
    return known is not None and known.type is ConfigType.PASSWORD
