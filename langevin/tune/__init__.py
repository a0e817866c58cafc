"""Kernel → kernel before sampling. A Tune takes (key, kernel, target, states) and returns (kernel, states)."""
