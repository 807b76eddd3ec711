"""The answer of `/readyz`: whether a broker serves. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Readiness(NamedTuple):
    """The reasons why a broker does not serve, and what is not as it should be though it does.

    Attributes:
        reasons: each keeps clients from being served; none where it is ready.
        warnings: partitions or folders that have failed.
    """

    reasons: list[str]
    warnings: list[str]


def readiness(
    *,
    is_running: bool,
    knows_cluster: bool,
    folders: int,
    failed_folders: int,
    offline_partitions: int,
) -> Readiness:
    """Judge a broker.

    Args:
        is_running: it has started, and does not stop.
        knows_cluster: the controller has told it of its cluster.
        folders, failed_folders: data folders, and how many of them have failed.
        offline_partitions: replicas here whose log cannot be used.
    """
    if not is_running:
        return Readiness(["the broker starts or stops"], [])
    reasons, warnings = [], []
    if not knows_cluster:
        reasons.append("the controller has not told this broker of its cluster yet")
    if failed_folders == folders:
        reasons.append("all data folders have failed")
    elif failed_folders:
        warnings.append(f"{failed_folders} of {folders} data folders have failed")
    if offline_partitions:
        warnings.append(f"the logs of {offline_partitions} partitions here cannot be used")
    return Readiness(reasons, warnings)
