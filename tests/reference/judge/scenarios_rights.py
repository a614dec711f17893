"""Rights, users and quotas, on a cluster without an authorizer and with listeners that ask nobody who he is."""

from __future__ import annotations

from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.play import Script
from tests.support.broker_process import eventually

ANY, TOPIC, READ, ALLOW, LITERAL = 1, 2, 3, 3, 3
SHA_256, SHA_512 = 1, 2


@each_version("Acls-off", (1, 2, 3))
def acls(s: Script, v: int) -> None:
    """SE33: SECURITY_DISABLED, in the answer or in each entry."""
    wanted = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    everything = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    one = AclCreation(
        resource_type=TOPIC,
        resource_name="t",
        resource_pattern_type=LITERAL,
        principal="User:a",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    s.client().call(DescribeAclsRequest(**wanted, **everything), v)
    s.client().call(CreateAclsRequest(creations=[one, one]), v)
    s.client().call(CreateAclsRequest(creations=[]), v)
    s.client().call(DeleteAclsRequest(filters=[DeleteAclsFilter(**wanted, **everything)]), v)
    s.client().call(DeleteAclsRequest(filters=[]), v)


@scenario("Scram-users")
def _(s: Script) -> None:
    """SE50: set, told of, changed, removed; and what is refused. Kafka's broker hears a little later of a change."""

    def known(user: str, **iterations: int) -> None:
        asked = DescribeUserScramCredentialsRequest(users=[UserName(name=user)])

        def is_known() -> bool:
            [result] = s.observer().call(asked, 0).results
            return {f"m{one.mechanism}": one.iterations for one in result.credential_infos} == iterations

        eventually(is_known, what=f"{user} has {iterations}")

    def alter(*wishes: ScramCredentialDeletion | ScramCredentialUpsertion) -> None:
        deletions = [one for one in wishes if isinstance(one, ScramCredentialDeletion)]
        upsertions = [one for one in wishes if isinstance(one, ScramCredentialUpsertion)]
        s.client().call(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions), 0)

    def describe(*users: str) -> None:
        s.client().call(DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users]), 0)

    def upsertion(user: str, mechanism: int, iterations: int = 4096) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(
            name=user, mechanism=mechanism, iterations=iterations, salt=b"salt" * 5, salted_password=b"x" * 32
        )

    ann = s.name("ann")
    describe(ann)
    alter(upsertion(ann, SHA_256), upsertion(ann, SHA_512))
    alter(upsertion(ann, SHA_256))
    known(ann, m1=4096)
    describe(ann)
    describe(ann, ann)
    alter(upsertion(ann, SHA_512, 8192))
    alter(upsertion(ann, SHA_512, 4095))
    alter(upsertion(ann, SHA_512, 16_385))
    alter(upsertion(ann, 0))
    alter(upsertion(ann, 7))
    alter(upsertion("", SHA_256))
    alter(ScramCredentialDeletion(name=s.name("bob"), mechanism=SHA_256))
    alter(ScramCredentialDeletion(name=ann, mechanism=SHA_256))
    known(ann, m2=8192)
    describe(ann)
    alter(ScramCredentialDeletion(name=ann, mechanism=SHA_512))
    known(ann)
    describe(ann)


@each_version("Quotas-told", (0, 1))
def quotas(s: Script, v: int) -> None:
    """SE53: there are none of these; and what is no question."""

    def ask(*components: ComponentData, strict: bool = False) -> None:
        s.client().call(DescribeClientQuotasRequest(components=list(components), strict=strict), v)

    ask(strict=True)
    ask(ComponentData(entity_type="user", match_type=0, match="nobody"))
    ask(ComponentData(entity_type="client-id", match_type=1, match=None), strict=True)
    ask(ComponentData(entity_type="planet", match_type=0, match="earth"))
    ask(ComponentData(entity_type="user", match_type=9, match=None))
    ask(ComponentData(entity_type="user", match_type=0, match=None))
