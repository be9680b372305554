"""innet: distributed machine learning over named data, with reductions inside the network."""

from importlib.metadata import version

__version__ = version("innet")
