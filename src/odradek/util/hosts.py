"""Addresses of hosts as text."""

from __future__ import annotations

import ipaddress


def same_host(text: str) -> str:
    """One form for all the ways in which an IPv6 address can be written; other texts as they are.

    An IPv4 address is one, whichever socket it came by. Kafka has but one form, too: `0:0:0:0:0:0:0:1`, as
    Java writes it.
    """
    if ":" not in text:
        return text
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return text
    return str(address.ipv4_mapped or address)


def host_and_port(host: str, port: int) -> str:
    """Return the address of a port, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
