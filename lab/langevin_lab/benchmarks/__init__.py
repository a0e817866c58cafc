"""One file per comparison: what `langevin bench NAME` runs. Each module has `run(size, seed) -> Result`."""
