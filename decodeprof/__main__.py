"""Runs the command line with ``python -m decodeprof``."""

from decodeprof.cli import main

if __name__ == "__main__":
    main()
