"""``python -m innet``: the same as the command ``innet``."""

from innet.cli.main import app

if __name__ == "__main__":
    app(prog_name="innet")
