"""A FUSE mount in trouble, served by a process of its own: `hungfs.py PATH hang|ERROR`.

Speaks just enough of the kernel's FUSE protocol to be mounted (it answers INIT). Every other request stays
unanswered: stat, statfs, open and readdir hang, as on a dead file server. With the name of an error, such as
ESTALE, every request fails with it instead. The end of this process closes /dev/fuse, which aborts the
connection: every caller gets ENOTCONN.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import sys

REQUEST_HEADER = struct.Struct("<IIQQIIII")  # length, opcode, unique, node id, uid, gid, pid, padding
ANSWER_HEADER = struct.Struct("<IiQ")  # length, error, unique
INIT_ANSWER = struct.Struct(
    "<IIIIHHII36x"
)  # version, readahead, flags, background limits, write size, time unit
OPCODE_FORGET, OPCODE_INIT, OPCODE_INTERRUPT, OPCODE_BATCH_FORGET = 2, 26, 36, 42
WANT_NO_ANSWER = (OPCODE_FORGET, OPCODE_INTERRUPT, OPCODE_BATCH_FORGET)
PROTOCOL = (7, 31)
BUFFER_SIZE = 1 << 17


def init_answer(request: bytes, unique: int) -> bytes:
    """The reply to the kernel's greeting: protocol version and limits, no optional feature."""
    readahead = struct.unpack_from("<I", request, REQUEST_HEADER.size + 8)[0]
    body = INIT_ANSWER.pack(*PROTOCOL, readahead, 0, 16, 12, 65536, 1)
    return ANSWER_HEADER.pack(ANSWER_HEADER.size + len(body), 0, unique) + body


def mount(path: str, source: str) -> int:
    """Mount on `path`, with what is wrong as its source; returns the open /dev/fuse."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), os.fsencode(path), b"fuse.hungfs", 0, options.encode()) != 0:
        sys.exit(f"hungfs: mount on {path}: {os.strerror(ctypes.get_errno())}")
    return device


def serve(device: int, error: int) -> None:
    """Take requests until the connection is aborted (ENODEV); `error` 0 answers none of them."""
    while request := _next_request(device):
        _, opcode, unique, *_ = REQUEST_HEADER.unpack_from(request)
        if opcode == OPCODE_INIT:
            _answer(device, init_answer(request, unique))
        elif error and opcode not in WANT_NO_ANSWER:
            _answer(device, ANSWER_HEADER.pack(ANSWER_HEADER.size, -error, unique))


def _next_request(device: int) -> bytes:
    """Empty when the connection is over."""
    while True:
        try:
            return os.read(device, BUFFER_SIZE)
        except OSError as problem:
            if problem.errno != errno.ENOENT:  # that one: the caller was killed while we read, take the next
                return b""


def _answer(device: int, answer: bytes) -> None:
    with contextlib.suppress(OSError):  # whoever asked was killed meanwhile
        os.write(device, answer)


if __name__ == "__main__":
    trouble = sys.argv[2]
    serve(mount(sys.argv[1], trouble), 0 if trouble == "hang" else getattr(errno, trouble))
