"""``python -m innet``: the same as the command ``innet``."""

from innet.cli.entry import main

if __name__ == "__main__":
    main()
