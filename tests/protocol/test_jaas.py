"""JAAS lines as Kafka reads them."""

import pytest

from protocol.jaas import JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {}),
        ('user_bob="bobpw"', {"user_bob": "bobpw"}),
        ("user_bob='bobpw' user_carol = word.with-all_$", {"user_bob": "bobpw", "user_carol": "word.with-all_$"}),
        (r'user_a="q\"b\\c\n\t\101\7"', {"user_a": 'q"b\\c\n\tA\x07'}),
        ('/* one */ user_a="x" // two\n user_b="/* no */"', {"user_a": "x", "user_b": "/* no */"}),
        ('user_a="ü;="', {"user_a": "ü;="}),
    ],
)
def test_options_are_words_and_quoted_texts(options: str, expected: dict[str, str]):
    """SE27"""
    login = parse_jaas(f"{PLAIN} ReQuired {options};")

    assert login.module == PLAIN
    assert login.options == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "names no login module"),
        ("// nothing\n", "names no login module"),
        (f"{PLAIN};", "required, requisite"),
        (f"{PLAIN} needed;", "required, requisite"),
        (f"{PLAIN} required", "semicolon"),
        (f'{PLAIN} required user_a="x"', "semicolon"),
        (f"{PLAIN} required user_a=17;", "Value not specified for key 'user_a'"),
        (f"{PLAIN} required user_a;", "Value not specified for key 'user_a'"),
        (f"{PLAIN} required user_a=;", "Value not specified for key 'user_a'"),
        (f'{PLAIN} required user_a="secret', "Value not specified for key 'user_a'"),
        (f"{PLAIN} required user_a=my secret;", "with blanks in quotes"),
        (f"{PLAIN} required; {PLAIN} required;", "one login module"),
        ('"', "does not begin with"),
    ],
)
def test_what_is_no_such_line_is_refused_without_its_values(line: str, words: str):
    """SE27"""
    with pytest.raises(JaasError, match=words) as refused:
        parse_jaas(line)
    assert "secret" not in str(refused.value)


def test_what_was_read_is_not_shown():
    assert "bobpw" not in repr(parse_jaas(f'{PLAIN} required user_bob="bobpw";'))
