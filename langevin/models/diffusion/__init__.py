"""Diffusion models: forward processes, losses, samplers, likelihoods, guidance, and critically-damped Langevin."""
