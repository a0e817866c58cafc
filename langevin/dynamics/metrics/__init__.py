"""Metrics that depend on where the chain is: D(θ) for `dynamics.riemann`, one small file each."""
