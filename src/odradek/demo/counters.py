"""Counters of this machine about itself, as events.

On Linux from `/proc`; elsewhere from what the standard library knows (load, processor time of this process,
free disk), so that the demo runs there too. Counters only ever grow; rates are the pipeline's business.
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]
"""`kind`, `time_ms` (epoch), and numbers under names that carry their unit."""

_SECTOR_BYTES = 512
_PROC = Path("/proc")


def sample(proc: Path = _PROC) -> Iterator[Event]:
    """One event for each kind of counter, as they are now. `proc`: where `/proc` is mounted."""
    time_ms = time.time_ns() // 1_000_000
    readers = {"cpu": read_cpu, "memory": read_memory, "disk": read_disk, "network": read_network}
    if not (proc / "stat").exists():
        yield {"kind": "cpu", "time_ms": time_ms, **_portable_cpu()}
        yield {"kind": "disk", "time_ms": time_ms, "used_bytes": shutil.disk_usage("/").used}
        return
    for kind, read in readers.items():
        yield {"kind": kind, "time_ms": time_ms, **read(proc)}


def read_cpu(proc: Path) -> dict[str, float]:
    """Seconds of all processors together since boot: `busy_s`, and `total_s` with idling."""
    ticks = os.sysconf("SC_CLK_TCK")
    # user nice system idle iowait irq softirq steal; guest times are in user and nice already.
    times = [int(text) for text in (proc / "stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]]
    idle = times[3] + times[4]
    return {"busy_s": (sum(times) - idle) / ticks, "total_s": sum(times) / ticks}


def read_memory(proc: Path) -> dict[str, float]:
    """Bytes: `used_bytes` is what cannot be had, `total_bytes` what there is."""
    kib = {}
    for line in (proc / "meminfo").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(":")
        kib[name] = int(rest.split()[0])
    available = kib.get("MemAvailable", kib["MemFree"])
    return {"used_bytes": (kib["MemTotal"] - available) * 1024, "total_bytes": kib["MemTotal"] * 1024}


def read_disk(proc: Path) -> dict[str, float]:
    """Bytes read from and written to whole disks (partitions of them are not counted twice)."""
    read = written = 0
    disks: list[str] = []
    for line in (proc / "diskstats").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        name = fields[2]
        if name.startswith(("loop", "ram", "dm-", "md")) or any(name.startswith(disk) for disk in disks):
            continue
        disks.append(name)
        read += int(fields[5]) * _SECTOR_BYTES
        written += int(fields[9]) * _SECTOR_BYTES
    return {"read_bytes": read, "written_bytes": written}


def read_network(proc: Path) -> dict[str, float]:
    """Bytes that came in and went out by all interfaces, the loopback included: the broker is behind it."""
    received = sent = 0
    for line in (proc / "net" / "dev").read_text(encoding="utf-8").splitlines()[2:]:
        numbers = line.partition(":")[2].split()
        received += int(numbers[0])
        sent += int(numbers[8])
    return {"received_bytes": received, "sent_bytes": sent}


def _portable_cpu() -> dict[str, float]:
    """Without /proc: this process's own share of the time that has passed."""
    times = os.times()
    return {"busy_s": times.user + times.system, "total_s": times.elapsed * (os.cpu_count() or 1)}
