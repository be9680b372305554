# Additions to the generated _core.pyi: the generator leaves out names with underscores.

__prefix__:
    __version__: str
