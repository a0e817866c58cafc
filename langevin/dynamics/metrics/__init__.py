"""Metrics that depend on where the chain is: D(θ) for `core.riemann`, one small file each."""
