"""Delay of light in optical fibre, and distances on the Earth."""

from __future__ import annotations

import math
from typing import Final

SPEED_IN_FIBRE_KM_PER_S: Final = 204_000.0
"""Speed of light in vacuum divided by the group index of silica fibre, about 1.468."""

EARTH_RADIUS_KM: Final = 6371.0


def fibre_delay_s(distance_km: float) -> float:
    """One-way propagation delay over a fibre of that length, to the microsecond."""
    return round(distance_km / SPEED_IN_FIBRE_KM_PER_S, 6)


def great_circle_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Distance between two (latitude, longitude) pairs in degrees, by the haversine formula."""
    (latitude_a, longitude_a), (latitude_b, longitude_b) = (
        (math.radians(latitude), math.radians(longitude)) for latitude, longitude in (a, b)
    )
    haversine = (
        math.sin((latitude_b - latitude_a) / 2) ** 2
        + math.cos(latitude_a)
        * math.cos(latitude_b)
        * math.sin((longitude_b - longitude_a) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, haversine)))
