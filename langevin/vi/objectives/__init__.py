"""One objective a file: what a fit maximises, as a few lines on log weights."""
