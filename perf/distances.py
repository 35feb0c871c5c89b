"""How far numbers are from those that were expected, where either may be NaN (in metrics.jsonl: null)."""
import math


def relative(found, expected):
    """The relative distance; NaN where one of the two is."""
    return math.nan if found is None or expected is None else abs(found - expected) / abs(expected)


def largest(distances):
    """The largest of them: NaN where one is, which no bound holds. max() may pass it over, because no number is less than it."""
    return math.nan if any(map(math.isnan, distances)) else max(distances)
