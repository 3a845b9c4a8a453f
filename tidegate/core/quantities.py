"""Counts and durations as people say them. Whatever is printed says them by these."""


def counted(count: float, one: str, many: str = "") -> str:
    """ "1 row", "1,234 rows"; `many` if that is not `one` with an s: counted(2, "upload is", "uploads are")."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def duration(seconds: float) -> str:
    """Seconds as "45s", "12m", "3h" or "2d 4h"; never negative, since two clocks may differ."""
    seconds = max(0, round(seconds))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 2 * 3600:
        return f"{seconds // 60}m"
    if seconds < 48 * 3600:
        return f"{seconds // 3600}h"
    hours = seconds % 86400 // 3600
    return f"{seconds // 86400}d {hours}h" if hours else f"{seconds // 86400}d"
