"""A process group's name and description, by which PyTorch finds and shows it."""

from __future__ import annotations

from torch.distributed import ProcessGroup


class LabelledProcessGroup(ProcessGroup):
    """Keeps what PyTorch names it.

    The C++ base class leaves the name to its devices' backends, and a group that is its own backend
    has none; functional collectives and DTensor look groups up by their names.
    """

    def __init__(self, rank: int, size: int) -> None:
        # The one constructor that takes subclasses; the stub does not list it.
        super().__init__(rank, size)  # type: ignore[call-arg]
        self._name = ""
        self._description = ""

    def getGroupName(self) -> str:  # noqa: N802  (the names C++ looks for, here and below)
        """The name, unique in this process; empty before PyTorch gives one."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """PyTorch gives the name once, when it has made the group."""
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """What the group is for, such as ``mesh_tp``."""
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """Set what :meth:`getGroupDesc` tells."""
        self._description = description
