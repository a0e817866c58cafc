"""Schedules of step sizes and temperatures: records that map a step count to a number."""

from langevin.core.schedule import Cosine, Linear, Polynomial, Scaled

__all__ = ["Cosine", "Linear", "Polynomial", "Scaled"]
