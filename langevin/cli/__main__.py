"""`python -m langevin.cli`."""

from langevin.cli import main

main()
