"""Kernels made of kernels: they change when, how often or at which temperatures another kernel moves."""
