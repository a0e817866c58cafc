"""The laboratory: experiments (`langevin reproduce`), benchmarks (`langevin bench`), their oracles and weights."""
