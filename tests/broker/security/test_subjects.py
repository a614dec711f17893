"""Subjects as Java writes them, and the rules that make names of them."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from broker.security.subjects import MappingError, mapped, parse_rules, subject_text

ALICE = "CN=alice,OU=Dev,O=Acme"


def name(*parts: tuple[x509.ObjectIdentifier, str]) -> bytes:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts]).public_bytes()


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (
            name((NameOID.ORGANIZATION_NAME, "Acme"), (NameOID.ORGANIZATIONAL_UNIT_NAME, "Dev"),
                 (NameOID.COMMON_NAME, "alice")),
            ALICE,
        ),
        (name((NameOID.EMAIL_ADDRESS, "a@b"), (NameOID.COMMON_NAME, "x")), "CN=x,1.2.840.113549.1.9.1=#1603614062"),
        (name((NameOID.SERIAL_NUMBER, "7")), "2.5.4.5=#130137"),
        (name((NameOID.COMMON_NAME, 'a,b+c"d\\e<f>g;h=i#j')), 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h\\=i\\#j'),
        (name((NameOID.COMMON_NAME, "  a b ")), "CN=\\ \\ a b\\ "),
        (name((NameOID.COMMON_NAME, "Jürgen ✓")), "CN=Jürgen ✓"),
        (name((NameOID.COUNTRY_NAME, "DE"), (NameOID.STATE_OR_PROVINCE_NAME, "BY"), (NameOID.LOCALITY_NAME, "M"),
              (NameOID.STREET_ADDRESS, "S 1"), (NameOID.DOMAIN_COMPONENT, "example"), (NameOID.USER_ID, "u")),
         "UID=u,DC=example,STREET=S 1,L=M,ST=BY,C=DE"),
        (b"\x30\x00", ""),
    ],
)  # fmt: skip
def test_a_subject_is_written_as_java_writes_it(subject: bytes, text: str):
    """SE06"""
    assert subject_text(subject) == text


def test_attributes_of_one_part_are_joined_by_plus():
    """SE06"""
    both = x509.Name(
        [
            x509.RelativeDistinguishedName(
                [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b")]
            )
        ]
    )
    assert sorted(subject_text(both.public_bytes()).split("+")) == ["CN=a", "UID=b"]


@pytest.mark.parametrize(
    ("rules", "result"),
    [
        ("DEFAULT", ALICE),
        ("", ALICE),
        ("RULE:^CN=(.*?),OU=Dev.*$/$1/U,DEFAULT", "ALICE"),
        ("RULE:^CN=(.*?),OU=Dev.*$/$1@acme/L", "alice@acme"),
        ("RULE:^CN=(.*?),OU=Ops.*$/$1/,RULE:^CN=([^,]*),.*$/x-$1/", "x-alice"),
        (r"RULE:^CN=(.*?),OU=Dev.*$/a\/$1/", "a/alice"),
        ("RULE:^CN=(.*?),OU=Dev.*$/$1$9/", "alice$9"),
        ("RULE:^CN=(.*?),OU=Dev.*$/$12/", "alice2"),
        (r"RULE:^CN=(.*?),OU=Dev.*$/\$1/", "$1"),
        ("RULE:^CN=nobody$/x/", None),
        ("RULE:^CN=nobody$/x/,DEFAULT", ALICE),
    ],
)
def test_the_first_rule_that_matches_makes_the_name(rules: str, result: str | None):
    """SE07"""
    assert mapped(parse_rules(rules), ALICE) == result


@pytest.mark.parametrize("rules", ["RULE:a", "default", "RULE:(/x/", "RULE:(?<n>a)/x/", "DEFAULT,", "DEFAULT,x"])
def test_what_is_no_rule_is_refused(rules: str):
    """SE07: also patterns that only Java has."""
    with pytest.raises(MappingError):
        parse_rules(rules)
