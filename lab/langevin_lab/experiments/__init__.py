"""One file per result: what `langevin reproduce NAME` runs. Each has `run(size, seed) -> Result`."""
