"""Open MPI, called through its C interface: no binding has to be installed besides ``mpirun``."""

from __future__ import annotations

import ctypes
import ctypes.util

import numpy as np

from innet.errors import CollectiveError
from innet.lab.compare.pattern import FloatArray

_SUCCESS = 0
_MAX_VERSION_BYTES = 8192  # generous: Open MPI's MPI_MAX_LIBRARY_VERSION_STRING is 256
# Dynamic components of Open MPI expect the library's symbols in the global scope.
_MODE = ctypes.RTLD_GLOBAL


class OpenMpiContender:
    """Any call is ``MPI_Allreduce``: Open MPI chooses the algorithm by size and group."""

    def __init__(self) -> None:
        """Initialise MPI; the process must have been started by ``mpirun``.

        Raises:
            CollectiveError: the library is missing or refuses.
        """
        name = ctypes.util.find_library("mpi")
        if name is None:
            raise CollectiveError(
                "mpirun is installed, libmpi is not found. Install Open MPI (openmpi-bin), or "
                "compare without it."
            )
        self._mpi = ctypes.CDLL(name, mode=_MODE)
        self._call("MPI_Init", None, None)
        # Open MPI's handles are the addresses of these objects (mpi.h, OMPI_PREDEFINED_GLOBAL).
        self._world = self._handle("ompi_mpi_comm_world")
        self._float = self._handle("ompi_mpi_float")
        self._sum = self._handle("ompi_mpi_op_sum")
        self.rank = self._number("MPI_Comm_rank")
        self.size = self._number("MPI_Comm_size")
        self.version = self._version()
        self._contribution: FloatArray = np.empty(0, np.float32)
        self._out: FloatArray = np.empty(0, np.float32)

    def load(self, call: str, contribution: FloatArray) -> None:
        """Keep the contribution; the result goes to a buffer of its own."""
        self._contribution = np.ascontiguousarray(contribution)
        if self._out.shape != contribution.shape:
            self._out = np.zeros_like(contribution)

    def allreduce(self) -> None:
        """One ``MPI_Allreduce``.

        Raises:
            CollectiveError: Open MPI reports an error.
        """
        self._call(
            "MPI_Allreduce",
            ctypes.c_void_p(self._contribution.ctypes.data),
            ctypes.c_void_p(self._out.ctypes.data),
            ctypes.c_int(self._contribution.size),
            self._float,
            self._sum,
            self._world,
        )

    def result(self) -> FloatArray:
        """The output buffer."""
        return self._out

    def close(self) -> None:
        """Finalise MPI."""
        self._call("MPI_Finalize")

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._mpi, function)(*arguments)
        if code != _SUCCESS:
            raise CollectiveError(f"{function} of Open MPI failed with code {code}")

    def _handle(self, symbol: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self._mpi, symbol)))

    def _number(self, function: str) -> int:
        number = ctypes.c_int()
        self._call(function, self._world, ctypes.byref(number))
        return number.value

    def _version(self) -> str:
        text = ctypes.create_string_buffer(_MAX_VERSION_BYTES)
        length = ctypes.c_int()
        self._call("MPI_Get_library_version", text, ctypes.byref(length))
        return text.value.decode().split(",")[0].removesuffix(" ")
