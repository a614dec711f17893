"""What ACLs are made of, by the numbers of requests and records.

Source: KIP-11, KIP-290, KIP-373, KIP-939; Kafka's AclOperation, ResourceType, PatternType, AclPermissionType.
"""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """What a principal wants to do to a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """The kinds of things that rights are given on."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of an ACL means names of resources; the first three only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether an ACL gives or takes."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
"""The only name that a resource of type CLUSTER has."""
WILDCARD = "*"
"""The literal name that means all names, and the host that means all hosts."""
EVERYBODY = "User:*"
ANONYMOUS = "User:ANONYMOUS"
