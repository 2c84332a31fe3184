"""The amount of free memory."""

from __future__ import annotations

__all__ = ["available_memory"]


def available_memory() -> int | None:
    """Bytes of memory that are available; None if the system does not say."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
