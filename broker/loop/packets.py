"""What a listening socket is not shown: connections of certain addresses, which the kernel drops before it answers.

A classic BPF program on the socket, as Linux has it; where there is none, or it is not allowed, nothing is dropped.
Connections that were accepted before are not touched, and those accepted meanwhile are of other addresses.

Source: socket(7), SO_ATTACH_FILTER; Linux' networking/filter.rst.
"""

from __future__ import annotations

import socket
import sys
from array import array
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_HOSTS = 16
"""Jumps of such a program reach no further."""

_ATTACH, _DETACH = 26, 27  # SO_ATTACH_FILTER, SO_DETACH_FILTER, which Python does not name
_WORD, _BYTE, _SHIFT, _EQUAL, _END = 0x20, 0x30, 0x74, 0x15, 0x06
_NETWORK = 0xFFF00000  # SKF_NET_OFF: from the head of IP on, and not from that of TCP
_ALL, _NOTHING = 0xFFFFFFFF, 0
_INSTRUCTION = Struct("=HBBI")
_PROGRAM = Struct("@HP")


def drop(sock: socket.socket, hosts: Sequence[str]) -> bool:
    """Drop what comes from these addresses, and nothing else any more; whether the kernel does."""
    if not sys.platform.startswith("linux"):
        return False
    with suppress(OSError):
        if not hosts:
            sock.setsockopt(socket.SOL_SOCKET, _DETACH, 0)
            return True
        program = array("B", _program(hosts[:MOST_HOSTS]))
        address, size_bytes = program.buffer_info()
        sock.setsockopt(socket.SOL_SOCKET, _ATTACH, _PROGRAM.pack(size_bytes // _INSTRUCTION.size, address))
        return True
    return False


def _program(hosts: Sequence[str]) -> bytes:
    four = [socket.inet_pton(socket.AF_INET, host) for host in hosts if ":" not in host]
    six = [socket.inet_pton(socket.AF_INET6, host.partition("%")[0]) for host in hosts if ":" in host]
    of_four = [(_WORD, 0, 0, _NETWORK + 12)]
    for address in four:
        of_four += [(_EQUAL, 0, 1, int.from_bytes(address)), (_END, 0, 0, _NOTHING)]
    of_four.append((_END, 0, 0, _ALL))
    of_six = []
    for address in six:
        for word in range(4):
            of_six.append((_WORD, 0, 0, _NETWORK + 8 + 4 * word))
            behind = 2 * (3 - word) + 1  # the end of this address
            of_six.append((_EQUAL, 0, behind, int.from_bytes(address[4 * word : 4 * word + 4])))
        of_six.append((_END, 0, 0, _NOTHING))
    of_six.append((_END, 0, 0, _ALL))
    version = [(_BYTE, 0, 0, _NETWORK), (_SHIFT, 0, 0, 4), (_EQUAL, 0, len(of_four), 4)]
    return b"".join(_INSTRUCTION.pack(*one) for one in (*version, *of_four, *of_six))
