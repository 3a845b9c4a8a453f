"""Confidence intervals of counts."""

import math

Z = 1.959964
"""The normal distribution's 97.5th percentile: 95 % lie between minus and plus this."""


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson's score: it holds for no hits, too.
    https://en.wikipedia.org/wiki/Binomial_proportion_confidence_interval#Wilson_score_interval"""
    if not trials:
        return 0.0, 1.0
    share = hits / trials
    middle = share + Z * Z / (2 * trials)
    spread = Z * math.sqrt(share * (1 - share) / trials + Z * Z / (4 * trials * trials))
    scale = 1 + Z * Z / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def per_thousand(share: float) -> str:
    """Whole numbers, but for those below ten, which keep one decimal if that is not lost in rounding."""
    value = 1_000 * share
    return f"{value:.0f}" if value >= 9.95 or value < 0.05 else f"{value:.1f}"
