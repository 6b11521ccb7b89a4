"""The kinds of values that settings have; what a value must be is said as it is told to an admin."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from slurm_guard.slurm.hostlist import expand


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise ValueError("an absolute path")
    return path


def _one_word(text: str) -> str:
    if not text or not text.isprintable() or set(text) & set(' ,"'):
        raise ValueError("one word without blanks, commas or quotes")
    return text


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        odd = parts.username or parts.password or parts.query or parts.fragment or parts.port == 0
        good = parts.scheme in ("http", "https") and parts.hostname and not odd
    except ValueError:
        good = False
    if not good or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError('"http://HOST:PORT" or "https://HOST:PORT"')
    return text


def _listen(text: str) -> str:
    host_and_port(text)
    return text


def host_and_port(text: str) -> tuple[str, int]:
    """`127.0.0.1:9427`, `[::1]:9427` or `head1:9427`, taken apart. Raises ValueError: what was expected."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    plain = host[1:-1] if bracketed else host
    number = int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else 0
    if not plain or not plain.isprintable() or " " in plain or (":" in plain) != bracketed:
        raise ValueError('"ADDRESS:PORT", such as "127.0.0.1:9427" or "[::1]:9427"')
    if not 1 <= number <= 65535:
        raise ValueError('"ADDRESS:PORT" with a port from 1 to 65535')
    return plain, number


def _networks(texts: list[str]) -> list[str]:
    for text in texts:
        try:
            ip_network(text)
        except ValueError:
            raise ValueError('addresses or networks, such as ["10.0.0.7", "10.1.0.0/16"]') from None
    return texts


def _hostlists(table: dict[str, list[str]]) -> dict[str, list[str]]:
    for hostlist in table:
        try:
            good = bool(hostlist.strip() and expand(hostlist))
        except ValueError:
            good = False
        if not good:
            raise ValueError('hostlists as keys, such as "gpu[001-064]" = ["10.1.0.0/16"]')
    return table


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
Word = Annotated[str, AfterValidator(_one_word)]
Count = Annotated[int, Field(ge=0, lt=1 << 31)]
Seconds = Annotated[float, Field(gt=0, le=10 * 365 * 86400, allow_inf_nan=False)]
Duration = Annotated[float, Field(ge=0, le=10 * 365 * 86400, allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Url = Annotated[str, AfterValidator(_url)]
Listen = Annotated[str, AfterValidator(_listen)]
Networks = Annotated[list[str], Field(min_length=1), AfterValidator(_networks)]
Addresses = Annotated[dict[str, Networks], AfterValidator(_hostlists)]
