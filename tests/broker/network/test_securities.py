"""TLS and SASL of listeners, changed while the broker runs."""

from __future__ import annotations

import base64
import io
import os
import random
import re
import ssl
from pathlib import Path
from typing import Any

import pytest

from broker.catalogue.cluster_state import BROKER_RESOURCE
from broker.catalogue.config_changes import ConfigChange, ConfigOperation
from broker.composition import Composition
from broker.config.listeners import parse_listeners
from broker.config.setting_types import SettingsError
from broker.config.settings import Settings
from broker.handlers.configs import describe_configs
from broker.handlers.context import Deferred, RequestContext
from broker.loop import logs
from broker.network.securities import Securities
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from storage.errors import DirectoryRefused
from tests.support.certificates import Authority, Issued
from tests.support.virtual_runtime import VirtualRuntime

CA = Authority()
FOREIGN = Authority("Somebody Else")
SERVER = CA.issue()
NEXT = CA.issue()
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SSL, JAAS = "listener.name.ssl.", "listener.name.sasl.plain.sasl.jaas.config"
STORE, TRUST = f"{SSL}ssl.keystore.location", f"{SSL}ssl.truststore.location"


class Life:
    """One life of a broker with an SSL and a SASL_PLAINTEXT listener, as far as listeners go."""

    def __init__(self, folder: Path, **changed: str) -> None:
        self.folder = folder
        self.log = io.StringIO()
        logs.configure(level="info", stream=self.log)
        folder.mkdir(exist_ok=True)
        self.file("server", SERVER)
        given = {
            "listeners": "SSL://127.0.0.1:1,SASL://127.0.0.1:2",
            "listener.security.protocol.map": "SSL:SSL,SASL:SASL_PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": str(folder / "server.pem"),
            "ssl.truststore.certificates": CA.certificate_pem.decode(),
            "sasl.enabled.mechanisms": "PLAIN",
            JAAS: f'{PLAIN} user_ann="one";',
            **{key.replace("__", "."): value for key, value in changed.items()},
        }
        self.settings = Settings({key: value for key, value in given.items() if value})
        listeners = parse_listeners(self.settings)
        self.securities = Securities(self.settings, listeners)
        self.runtime = VirtualRuntime(1_700_000_000_000)
        endpoints = [(one.name, one.host, one.port) for one in listeners]
        self.composition = Composition.open(self.settings, self.runtime, endpoints, None, self.securities)
        self.broker = self.composition.broker
        self.securities.open(self.runtime, self.broker)
        self.composition.start()
        self.runtime.turn()

    def file(self, name: str, issued: Issued | bytes) -> str:
        """A file of this name with what a broker shows, or trusts."""
        path = self.folder / f"{name}.pem"
        path.write_bytes(issued if isinstance(issued, bytes) else issued.pem())
        return str(path)

    def alter(self, changes: dict[str, str | None], name: str = "1", *, validate_only: bool = False) -> Any:
        """IncrementalAlterConfigs of the broker, None deletes; (error, message)."""
        found: list[Any] = []
        asked = [
            ConfigChange(key, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value)
            for key, value in changes.items()
        ]
        self.broker.catalogue.alter_configs((BROKER_RESOURCE, name), asked, found.append, validate_only=validate_only)
        self.runtime.turn()
        return found[0].error, found[0].message or ""

    def replace(self, values: dict[str, str | None]) -> Any:
        """AlterConfigs of the broker."""
        found: list[Any] = []
        self.broker.catalogue.replace_configs((BROKER_RESOURCE, "1"), values, found.append)
        self.runtime.turn()
        return found[0].error, found[0].message or ""

    def shown(self) -> bytes:
        """The certificate that a handshake on the SSL listener shows now, as DER."""
        side = self.securities.by_name["SSL"].tls
        assert side is not None
        peer = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        peer.load_verify_locations(cadata=CA.certificate_pem.decode())
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = side.context.wrap_bio(to_server, to_client, server_side=True)
        client = peer.wrap_bio(to_client, to_server, server_hostname="localhost")
        for _ in range(3):
            for one in (client, server):
                try:
                    one.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        return client.getpeercert(binary_form=True) or b""

    def logs_in(self, user: str, password: str) -> bool:
        """Whether PLAIN on the SASL listener lets them in."""
        offer = self.securities.by_name["SASL"].offers.get("PLAIN")
        if offer is None:
            return False
        try:
            offer.begin().step(f"\0{user}\0{password}".encode())
        except Exception:
            return False
        return True

    def described(self, name: str = "1") -> dict[str, Any]:
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=4, resource_name=name, configuration_keys=None)],
            include_synonyms=True,
            include_documentation=False,
        )
        answer: Any = describe_configs(self.broker, RequestContext(version=4), request)
        self.runtime.turn()
        if isinstance(answer, Deferred):
            answer = answer.response
        return {entry.name: entry for entry in answer.results[0].configs}

    def again(self, **changed: str) -> Life:
        """The next life on the same directory."""
        self.stop()
        return Life(self.folder, **changed)

    def stop(self) -> None:
        done: list[bool] = []
        self.composition.stop(done.append)
        self.runtime.turn()
        assert done == [True]


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path / "broker")


def der(issued: Issued) -> bytes:
    return ssl.PEM_cert_to_DER_cert(issued.certificate_pem.decode())


def test_another_key_store_is_shown_to_new_connections_now_and_after_a_restart(life: Life):
    """SE08"""
    assert life.shown() == der(SERVER)
    assert life.alter({STORE: life.file("next", NEXT)}) == (ErrorCode.NONE, "")
    assert life.shown() == der(NEXT)
    assert "listener_changed" in life.log.getvalue()

    (life.folder / "server.pem").unlink()  # what the start says is not needed any more
    after = life.again()
    (after.folder / "server.pem").unlink()
    assert after.shown() == der(NEXT)
    after = after.again(ssl__keystore__location=str(life.folder / "gone.pem"))
    assert after.shown() == der(NEXT)
    after.stop()


def test_the_same_location_again_has_a_replaced_file_read(life: Life):
    """SE08"""
    path = life.file("changing", SERVER)
    assert life.alter({STORE: path}) == (ErrorCode.NONE, "")
    life.file("changing", NEXT)
    os.utime(path, ns=(1, 1))
    assert life.shown() == der(SERVER)
    assert life.alter({STORE: path}) == (ErrorCode.NONE, "")
    assert life.shown() == der(NEXT)
    life.file("changing", SERVER)
    os.utime(path, ns=(2, 2))
    assert life.replace({STORE: path}) == (ErrorCode.NONE, "")
    assert life.shown() == der(SERVER)
    life.stop()


def test_a_key_in_the_setting_itself_is_taken_and_never_shown(life: Life):
    """SE04, SE69"""
    (life.folder / "data").chmod(0o700)
    inline = {
        f"{SSL}ssl.keystore.key": NEXT.key_pem().decode(),
        f"{SSL}ssl.keystore.certificate.chain": NEXT.certificate_pem.decode(),
        f"{SSL}ssl.keystore.location": "",
    }
    error, message = life.alter(inline)
    assert (error, "it takes one of them" in message) == (ErrorCode.INVALID_REQUEST, True)
    after = life.again(ssl__keystore__location="", ssl__keystore__key=SERVER.key_pem().decode(),
                       ssl__keystore__certificate__chain=SERVER.certificate_pem.decode())  # fmt: skip
    del inline[f"{SSL}ssl.keystore.location"]
    assert after.alter(inline) == (ErrorCode.NONE, "")
    assert after.shown() == der(NEXT)
    entry = after.described()[f"{SSL}ssl.keystore.key"]
    assert (entry.value, entry.is_sensitive, entry.read_only) == (None, True, True)
    assert [(one.name, one.value, one.source) for one in entry.synonyms] == [
        (f"{SSL}ssl.keystore.key", None, 2), ("ssl.keystore.key", None, 4)
    ]  # fmt: skip
    said = after.log.getvalue()
    assert "secret_in_clear_text" in said
    assert NEXT.key_pem().decode().splitlines()[1] not in said
    after.stop()


def test_a_certificate_that_is_no_successor_is_refused_before_it_is_written_down(life: Life):
    """SE08"""
    other, lacking = CA.issue("other"), CA.issue(hosts=("localhost",))
    for issued, switch in ((other, "ssl.allow.dn.changes"), (lacking, "ssl.allow.san.changes")):
        error, message = life.alter({STORE: life.file("other", issued)})
        assert error is ErrorCode.INVALID_CONFIG
        assert switch in message
        assert STORE not in life.broker.catalogue.configs.get((BROKER_RESOURCE, "1"), {})
    assert life.shown() == der(SERVER)
    assert life.alter({STORE: life.file("other", lacking), f"{SSL}ssl.allow.san.changes": "true"})[0] == 0
    assert life.shown() == der(lacking)
    life.stop()


@pytest.mark.parametrize(
    ("changes", "name", "error", "words"),
    [
        ({"ssl.keystore.location": "/x"}, "1", "INVALID_REQUEST", "only per-listener using the listener prefix"),
        ({STORE: "/x"}, "", "INVALID_REQUEST", "broker id must be specified"),
        ({"ssl.client.auth": "none"}, "", "INVALID_REQUEST", "broker id must be specified"),
        ({STORE: "/no/such/file"}, "1", "INVALID_REQUEST", "no such file"),
        ({STORE: "/a\0b"}, "1", "INVALID_REQUEST", "null byte"),
        ({STORE: "/dev/zero"}, "1", "INVALID_REQUEST", "no plain file"),
        ({f"{SSL}ssl.keystore.type": "JKS"}, "1", "INVALID_REQUEST", "it takes PEM or PKCS12"),
        ({f"{SSL}ssl.client.auth": "perhaps"}, "1", "INVALID_REQUEST", f"{SSL}ssl.client.auth"),
        ({f"{SSL}ssl.enabled.protocols": "SSLv3"}, "1", "INVALID_REQUEST", "TLSv1.2 and TLSv1.3"),
        ({f"{SSL}ssl.cipher.suites": "NONE_SUCH"}, "1", "INVALID_REQUEST", "not known here"),
        ({f"{SSL}sasl.enabled.mechanisms": "PLAIN"}, "1", "INVALID_REQUEST", "would be open all the same"),
        ({"listener.name.sasl.ssl.client.auth": "required"}, "1", "INVALID_REQUEST", "would be open all the same"),
        ({"listener.name.other.ssl.client.auth": "required"}, "1", "INVALID_REQUEST", "OTHER is not in listeners"),
        ({f"{SSL}principal.builder.class": "x.Mine"}, "1", "INVALID_REQUEST", "not supported"),
        ({f"{SSL}num.partitions": "2"}, "1", "INVALID_REQUEST", "Cannot update these configs dynamically"),
        ({f"{SSL}com.example": "2"}, "1", "INVALID_CONFIG", "Unknown broker config name"),
        ({"listener.name.SSL.ssl.client.auth": "none"}, "1", "INVALID_CONFIG", "Unknown broker config name"),
        ({JAAS: f'{PLAIN} user_ann="planted"'}, "1", "INVALID_REQUEST", "not ended by a semicolon"),
        ({"listener.name.sasl.sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "1", "INVALID_REQUEST", "it is missing"),
    ],
)
def test_what_a_listener_cannot_be_is_refused_and_nothing_changes(
    life: Life, changes: dict[str, str | None], name: str, error: str, words: str
):
    """SE08"""
    (life.folder / "data").chmod(0o700)
    code, message = life.alter(changes, name)
    assert (code.name, words in message) == (error, True), message
    assert "planted" not in message
    assert (BROKER_RESOURCE, name) not in life.broker.catalogue.configs
    assert life.shown() == der(SERVER)
    assert life.logs_in("ann", "one")
    assert life.alter(dict.fromkeys(changes), name)[0] == ErrorCode.NONE or name == ""
    life.stop()


def test_files_that_are_a_little_wrong_are_refused_or_taken_and_no_bug(tmp_path: Path):
    """SE73: what a library makes of bytes that are almost a certificate is its own; here it is a refusal."""
    generator = random.Random(3)
    life = Life(tmp_path / "broker", ssl__truststore__certificates="")
    pem = re.compile(r"(-----BEGIN [A-Z ]+-----\n)(.*?)(-----END)", re.DOTALL)

    def wrong(found: re.Match[str]) -> str:
        data = bytearray(base64.b64decode(found[2]))
        if "KEY" not in found[1]:
            for _ in range(generator.randrange(1, 4)):
                data[generator.randrange(len(data))] = generator.randrange(256)
        return found[1] + base64.encodebytes(bytes(data)).decode() + found[3]

    answers = []
    for number in range(150):
        key = STORE if number % 2 else f"{SSL}ssl.truststore.location"
        store = SERVER.pem() if number % 2 else CA.certificate_pem
        changes: dict[str, str | None] = {key: life.file("wrong", pem.sub(wrong, store.decode()).encode())}
        answers.append(life.alter(changes, validate_only=True)[0])
    assert set(answers) <= {ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG}
    assert len(set(answers)) > 1
    assert "change_failed" not in life.log.getvalue()
    life.stop()


def test_users_of_plain_change_and_are_those_of_the_next_start(life: Life):
    """SE08, SE71: and only where nobody else can read them."""
    changes: dict[str, str | None] = {JAAS: f'{PLAIN} user_bob="planted-two";'}
    (life.folder / "data").chmod(0o755)
    error, message = life.alter(changes)
    assert (error, "chmod 700" in message) == (ErrorCode.INVALID_REQUEST, True)
    (life.folder / "data").chmod(0o700)
    held = life.securities.by_name["SASL"].offers  # as connections do that are there
    assert life.alter(changes, validate_only=True) == (ErrorCode.NONE, "")
    assert life.logs_in("ann", "one")
    assert life.alter(changes) == (ErrorCode.NONE, "")
    assert not life.logs_in("ann", "one")
    assert life.logs_in("bob", "planted-two")
    assert held is life.securities.by_name["SASL"].offers
    assert life.described()[JAAS].value is None
    assert "planted" not in life.log.getvalue()

    after = life.again()
    assert after.logs_in("bob", "planted-two")
    assert after.alter({JAAS: None}) == (ErrorCode.NONE, "")
    assert after.logs_in("ann", "one")
    assert not after.logs_in("bob", "planted-two")
    after.stop()


def test_client_certificates_versions_and_suites_hold_at_once_with_and_without_a_prefix(life: Life):
    """SE05"""
    side = life.securities.by_name["SSL"].tls
    assert side is not None
    assert life.alter({"ssl.client.auth": "required"}) == (ErrorCode.NONE, "")
    assert side.context.verify_mode is ssl.CERT_REQUIRED
    assert life.alter({f"{SSL}ssl.client.auth": "requested"}) == (ErrorCode.NONE, "")
    assert side.context.verify_mode is ssl.CERT_OPTIONAL
    assert life.alter({f"{SSL}ssl.enabled.protocols": "TLSv1.3"}) == (ErrorCode.NONE, "")
    assert side.context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert life.alter({f"{SSL}ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U"}) == (ErrorCode.NONE, "")
    assert side.principal(der(CA.issue("alice"))) == "User:ALICE"
    (life.folder / "data").chmod(0o700)
    trusted = side.context.get_ca_certs()
    assert life.alter({f"{SSL}ssl.truststore.certificates": FOREIGN.certificate_pem.decode()}) == (ErrorCode.NONE, "")
    assert side.context.get_ca_certs() != trusted
    entry = life.described()[f"{SSL}ssl.client.auth"]
    assert (entry.value, entry.config_source) == ("requested", 2)
    assert [(one.name, one.value) for one in entry.synonyms] == [
        (f"{SSL}ssl.client.auth", "requested"), ("ssl.client.auth", "required"), ("ssl.client.auth", "none")
    ]  # fmt: skip
    assert "ssl.client.auth" in life.described()
    life.stop()


def test_limits_of_a_listener_may_be_the_clusters(life: Life):
    """SE59"""
    security = life.securities.by_name["SSL"]
    assert life.alter({f"{SSL}max.connections": "5", f"{SSL}max.connection.creation.rate": "7"}, "")[0] == 0
    assert (security.max_connections, security.max_connection_rate) == (5, 7)
    assert life.alter({f"{SSL}max.connections": "6"})[0] == 0
    assert security.max_connections == 6
    assert life.described("")[f"{SSL}max.connections"].value == "5"
    assert life.alter({f"{SSL}max.connections": None})[0] == 0
    assert life.alter({f"{SSL}max.connections": None}, "")[0] == 0
    assert security.max_connections is None
    life.stop()


def test_a_store_that_is_broken_at_the_next_start_refuses_it_by_name(life: Life):
    """SE08: it is said what is wrong, and no other certificate shown."""
    path = life.file("next", NEXT)
    assert life.alter({STORE: path})[0] == ErrorCode.NONE
    life.file("next", b"broken")
    life.stop()
    with pytest.raises(DirectoryRefused, match=f"{STORE}, which were set while a broker ran"):
        Life(life.folder)
    life.file("next", NEXT)
    after = Life(life.folder)  # the refused start has changed nothing
    assert after.shown() == der(NEXT)
    assert not after.composition.broker.partitions.unclean
    after.stop()


def test_settings_that_are_wrong_are_refused_as_such_with_a_directory_and_without(life: Life):
    with pytest.raises(SettingsError, match="no such file"):
        Life(life.folder / "new", ssl__keystore__location="/no/such/file")
    with pytest.raises(SettingsError, match="no such file"):
        life.again(ssl__keystore__location="/no/such/file")
