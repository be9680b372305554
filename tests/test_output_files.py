"""Outputs that a user names: what exists and is no regular file is written into, and survives."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from innet.lab.experiment.sweep import file_paths
from innet.lab.simulation import Simulation
from innet.output_files import find_output, open_output, replace_output, write_output
from innet.private_files import write_private
from innet.topology import load_topology

TEXT = "what a command writes\n"
OTHER_USER = 65534

WRITERS: dict[str, Callable[[Path], None]] = {
    "whole": lambda path: write_output(path, TEXT),
    "replaced": lambda path: replace_output(path, [TEXT]),
    "private": lambda path: write_private(path, TEXT),
}


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    return WRITERS[request.param]


def read_in_background(path: Path) -> tuple[threading.Thread, list[bytes]]:
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()), daemon=True)
    reader.start()
    return reader, received


def test_a_fifo_stays_one_and_its_reader_receives_everything(tmp_path, write):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader, received = read_in_background(fifo)
    write(fifo)
    reader.join(10)
    assert received == [TEXT.encode()]
    assert stat.S_ISFIFO(fifo.lstat().st_mode)


def device_at(path: Path, minor: int) -> Path:
    """A device like ``/dev/null`` (3) or ``/dev/full`` (7), which a defect may destroy."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
    except PermissionError:
        pytest.skip("only root makes devices")
    return path


def test_a_device_survives(tmp_path, write):
    device = device_at(tmp_path / "device", 3)
    write(device)
    assert stat.S_ISCHR(device.lstat().st_mode)


def test_a_full_device_is_an_error(tmp_path, write):
    with pytest.raises(OSError, match="No space left"):
        write(device_at(tmp_path / "full", 7))


@pytest.mark.parametrize("kind", ["file", "fifo"])
def test_links_are_followed_and_stay(tmp_path, write, kind):
    target = tmp_path / "folder" / "target"
    target.parent.mkdir()
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to(Path("folder") / ".." / "folder" / "target")
    if kind == "fifo":
        os.mkfifo(target)
        reader, received = read_in_background(target)
    write(tmp_path / "one")
    if kind == "fifo":
        reader.join(10)
        assert received == [TEXT.encode()]
    else:
        assert target.read_text() == TEXT
    assert (tmp_path / "one").is_symlink()
    assert (tmp_path / "two").is_symlink()


def test_a_link_to_nothing_makes_its_target(tmp_path, write):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write(tmp_path / "link")
    assert (tmp_path / "target").read_text() == TEXT


def test_links_in_a_circle_are_an_error(tmp_path, write):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        write(tmp_path / "a")


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/proc/{}/fd/1"])
@pytest.mark.parametrize("into", ["pipe", "appended file", "socket"])
def test_a_descriptor_of_the_process_is_written_to_where_it_stands(tmp_path, path, into):
    program = (
        "import os; from pathlib import Path; from innet.output_files import write_output;"
        f"write_output(Path({path!r}.format(os.getpid())), {TEXT!r})"
    )
    command = [sys.executable, "-c", program]
    if into == "pipe":
        assert subprocess.check_output(command) == TEXT.encode()
    elif into == "socket":
        ours, theirs = socket.socketpair()
        with ours, theirs:
            subprocess.run(command, stdout=theirs.fileno(), check=True)
            assert ours.recv(100) == TEXT.encode()
    else:
        (tmp_path / "log").write_text("before\n")
        with (tmp_path / "log").open("a") as log:
            subprocess.run(command, stdout=log, check=True)
        assert (tmp_path / "log").read_text() == "before\n" + TEXT


def test_a_socket_and_a_folder_are_errors_that_say_so(tmp_path, write):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="it is a socket"):
            write(tmp_path / "socket")
    with pytest.raises(OSError, match="it is a folder"):
        write(tmp_path)
    with pytest.raises(OSError, match="there is no folder"):
        write(tmp_path / "nowhere" / "file")


def test_a_replaced_file_keeps_its_mode_and_owner(tmp_path):
    file = tmp_path / "file"
    file.write_text("before")
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, OTHER_USER, OTHER_USER)
    before = file.stat()
    replace_output(file, [TEXT])
    after = file.stat()
    assert file.read_text() == TEXT
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


def test_a_text_that_fails_half_way_replaces_nothing(tmp_path):
    def half() -> Iterator[str]:
        yield "half"
        raise ZeroDivisionError

    (tmp_path / "file").write_text("before")
    with pytest.raises(ZeroDivisionError):
        replace_output(tmp_path / "file", half())
    assert (tmp_path / "file").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["link", "fifo", "file"])
def test_what_another_user_planted_in_a_shared_folder_is_refused(tmp_path, write, kind):
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another user")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (tmp_path / "diary").write_text("mine")
    planted = shared / "output"
    if kind == "link":
        planted.symlink_to(tmp_path / "diary")
    elif kind == "fifo":
        os.mkfifo(planted)
    else:
        planted.write_text("theirs")
    os.chown(planted, OTHER_USER, OTHER_USER, follow_symlinks=False)
    with pytest.raises(PermissionError, match="another user put output into"):
        write(planted)
    assert (tmp_path / "diary").read_text() == "mine"


def test_a_target_replaced_after_it_was_found_is_not_written_to(tmp_path):
    file, theirs = tmp_path / "file", tmp_path / "theirs"
    file.write_text("mine")
    theirs.write_text("theirs")
    target = find_output(file)
    file.unlink()
    theirs.rename(file)
    with pytest.raises(OSError, match="it was replaced"):
        target.open()
    assert file.read_text() == "theirs"


def test_a_simulation_s_capture_is_written_into_a_fifo(tmp_path):
    fifo = tmp_path / "capture.pcapng"
    os.mkfifo(fifo)
    reader, received = read_in_background(fifo)
    with Simulation(load_topology("star:2")) as simulation:
        simulation.capture(fifo)
    reader.join(10)
    assert received[0].startswith(b"\x0a\x0d\x0d\x0a")
    assert stat.S_ISFIFO(fifo.lstat().st_mode)


def test_an_open_output_grows_while_it_is_read(tmp_path):
    with open_output(tmp_path / "file") as file:
        file.write(b"first")
        file.flush()
        assert (tmp_path / "file").read_bytes() == b"first"


def test_what_exists_and_is_no_folder_is_the_file_of_a_single_run(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert file_paths(fifo, ["run"], ".pcapng", "captures") == [fifo]
    assert file_paths(tmp_path, ["run"], ".pcapng", "captures") == [tmp_path / "run.pcapng"]
