"""One family a file; families may use one another."""
