"""`python -m langevin`: the command line."""

from langevin.cli import main

if __name__ == "__main__":
    main()
