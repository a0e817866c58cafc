"""One file per result: what `langevin reproduce NAME` and `langevin demo` run. Each has `run(size, seed) -> Result`."""
