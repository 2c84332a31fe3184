"""How much memory is free."""

from __future__ import annotations

__all__ = ["available_memory"]


def available_memory() -> int | None:
    """Bytes that are free for use; None where the system does not tell."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
