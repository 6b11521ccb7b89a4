"""Munge credentials through libmunge: who sent this, from which address, when. The library is loaded when
the first credential is made or checked.

Every call has a context of its own, so threads do not meet. libmunge waits for munged by itself, for a few
seconds at most; a caller that must not wait has a deadline of its own. See munge(3) and munge_ctx(3).
"""

from __future__ import annotations

import ctypes

from slurm_guard.core.errors import MungeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "libmunge.so.2"
#: What we sign are digests and names, a few hundred bytes.
LARGEST_PAYLOAD = 16 << 10
#: Base64 of that with munge's own header: what is longer was not made by `encode`.
LARGEST_CREDENTIAL = 32 << 10

#: munge_opt_t and munge_err_t of munge.h: the library's ABI.
_TTL, _ADDR4, _ENCODE_TIME, _SOCKET = 4, 5, 6, 8
SUCCESS, SNAFU, BAD_ARGUMENT, BAD_LENGTH = 0, 1, 2, 3
NO_SOCKET, TIMEOUT, BAD_CREDENTIAL, INVALID = 6, 7, 8, 14
EXPIRED, REWOUND, REPLAYED = 15, 16, 17
_NAMES = {
    NO_SOCKET: "socket",
    TIMEOUT: "timeout",
    EXPIRED: "expired",
    REWOUND: "rewound",
    REPLAYED: "replayed",
    18: "unauthorized",
}
_WHAT_TO_DO = {
    "socket": "is munged running, and may this user reach its socket?",
    "timeout": "munged did not answer; look into its log",
    "expired": "do the clocks of both hosts agree?",
    "rewound": "it was made in the future: do the clocks of both hosts agree?",
    "replayed": "each credential is accepted once",
    "unauthorized": "it was made for another user",
    "bad": "was it made with the same munge key?",
}

_loaded: Any = None


class Credential:
    """What a credential says: `payload`, the `uid` and `gid` that made it, the IPv4 `address` of the host it
    was made on, `encoded_at` (unix seconds) and `ttl` (seconds).
    """

    __slots__ = ("address", "encoded_at", "gid", "payload", "ttl", "uid")

    def __init__(self, payload: bytes, uid: int, gid: int, address: str, encoded_at: int, ttl: int) -> None:
        self.payload = payload
        self.uid = uid
        self.gid = gid
        self.address = address
        self.encoded_at = encoded_at
        self.ttl = ttl


def encode(payload: bytes, socket: str = "") -> str:
    """A fresh credential around a payload, made by this process's user.

    Raises MungeError (`socket` and `timeout`: no munged to ask; `bad`: a payload beyond LARGEST_PAYLOAD).
    """
    if len(payload) > LARGEST_PAYLOAD:
        raise _error("bad", BAD_LENGTH, f"a payload of {len(payload)} bytes, at most {LARGEST_PAYLOAD} fit")
    library = _library()
    made = ctypes.c_void_p()
    context = _context(library, socket)
    try:
        code = library.munge_encode(ctypes.byref(made), context, payload, len(payload))
        if code != SUCCESS:
            raise _failed(library, context, code, "no credential was made")
        return (ctypes.string_at(made.value) if made.value else b"").decode("ascii")
    finally:
        library.free(made)
        library.munge_ctx_destroy(context)


def decode(credential: str, socket: str = "") -> Credential:
    """Check a credential and return what it says. Each is accepted once on a host.

    Raises MungeError: its `name` is `replayed`, `expired`, `rewound`, `unauthorized`, `socket`, `timeout`, or
    `bad` for whatever is no credential of this cluster's key.
    """
    text = _as_bytes(credential)
    library = _library()
    payload, length = ctypes.c_void_p(), ctypes.c_int(0)
    uid, gid = ctypes.c_uint32(0), ctypes.c_uint32(0)
    context = _context(library, socket)
    try:
        given = (ctypes.byref(payload), ctypes.byref(length), ctypes.byref(uid), ctypes.byref(gid))
        code = library.munge_decode(text, context, *given)
        if code != SUCCESS:
            raise _failed(library, context, code, "the credential was not accepted")
        said = ctypes.string_at(payload.value, length.value) if payload.value else b""
        return Credential(said, uid.value, gid.value, *_origin(library, context))
    finally:
        library.free(payload)  # an expired or replayed credential has one too
        library.munge_ctx_destroy(context)


def _as_bytes(credential: str) -> bytes:
    if len(credential) > LARGEST_CREDENTIAL:
        raise _error(
            "bad",
            BAD_LENGTH,
            f"a credential of {len(credential)} bytes, at most {LARGEST_CREDENTIAL} are one",
        )
    try:
        text = credential.encode("ascii")
    except UnicodeEncodeError:
        raise _error("bad", BAD_CREDENTIAL, "a credential with letters beyond ASCII") from None
    if b"\0" in text:
        raise _error("bad", BAD_CREDENTIAL, "a credential with a NUL character")
    return text


def _origin(library: Any, context: int) -> tuple[str, int, int]:
    """Address, time of making and lifetime of what was just decoded."""
    address, made_at, ttl = (ctypes.c_uint8 * 4)(), ctypes.c_long(0), ctypes.c_int(0)
    for option, target in ((_ADDR4, address), (_ENCODE_TIME, made_at), (_TTL, ttl)):
        code = library.munge_ctx_get(context, option, ctypes.byref(target))
        if code != SUCCESS:
            raise _failed(library, context, code, "the credential's origin cannot be read")
    return ".".join(str(part) for part in address), made_at.value, ttl.value


def _context(library: Any, socket: str) -> int:
    """A context, which the caller destroys."""
    context: int | None = library.munge_ctx_create()
    if not context:
        raise _error("bad", SNAFU, "libmunge made no context (out of memory?)")
    if socket:
        code = library.munge_ctx_set(context, _SOCKET, ctypes.c_char_p(socket.encode("utf-8", "replace")))
        if code != SUCCESS:
            error = _failed(library, context, code, f"munge's socket cannot be {socket!r}")
            library.munge_ctx_destroy(context)
            raise error
    return context


def _failed(library: Any, context: int, code: int, what: str) -> MungeError:
    detail = library.munge_ctx_strerror(context) or library.munge_strerror(code) or b""
    return _error(_NAMES.get(code, "bad"), code, f"{what}: {detail.decode('utf-8', 'replace')}")


def _error(name: str, code: int, text: str) -> MungeError:
    return MungeError(f"munge: {text}; {_WHAT_TO_DO[name]}", name, code)


def _library() -> Any:
    """libmunge with its prototypes, and the C library's `free` for the buffers it hands out."""
    global _loaded  # noqa: PLW0603 - loaded once in a process, and only where it is needed
    if _loaded is None:
        try:
            library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise MungeError(
                f"munge: {LIBRARY} cannot be loaded: {error}; install munge's library, or use a token file",
                "socket",
                NO_SOCKET,
            ) from None
        _loaded = _with_prototypes(library)
    return _loaded


def _with_prototypes(library: Any) -> Any:
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    library.munge_ctx_create.restype = pointer
    library.munge_ctx_create.argtypes = []
    library.munge_ctx_destroy.restype = None
    library.munge_ctx_destroy.argtypes = [pointer]
    library.munge_ctx_strerror.restype = library.munge_strerror.restype = ctypes.c_char_p
    library.munge_ctx_strerror.argtypes, library.munge_strerror.argtypes = [pointer], [integer]
    # Variadic in C, always with one pointer here: given like any other argument on Linux's ABIs.
    library.munge_ctx_set.argtypes = library.munge_ctx_get.argtypes = [pointer, integer]
    library.munge_encode.argtypes = [pointer, pointer, ctypes.c_char_p, integer]
    library.munge_decode.argtypes = [ctypes.c_char_p, pointer] + [pointer] * 4
    library.free = ctypes.CDLL(None).free
    library.free.restype, library.free.argtypes = None, [pointer]
    return library
