"""What is written takes the place of files only, and only once it is whole."""

import os
import subprocess
import sys

import pytest

from aveyb_ir.data import write_lines, write_run
from aveyb_ir.errors import DataError


def test_pipes_and_folders_stay_what_they_are(tmp_path):
    """A pipe stands for devices too, which a test that fails must not replace."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for path, found in [
        (tmp_path / "pipe", "is a device or a pipe"),
        (tmp_path / "link", "is a device or a pipe"),
        (tmp_path, "is a folder"),
    ]:
        with pytest.raises(DataError, match=f"{path} {found}; expected a file"):
            write_run(path, {"q": {"d": 1.0}})
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


@pytest.mark.parametrize("name", ["/dev/stdout", "out.txt"])
def test_what_the_shell_prints_to_is_not_replaced(tmp_path, name):
    script = (
        "import sys; from aveyb_ir.data import write_lines; print('printed', flush=True); write_lines(sys.argv[1], 'x')"
    )
    with (tmp_path / "out.txt").open("w") as out:
        result = subprocess.run(
            [sys.executable, "-c", script, name],
            cwd=tmp_path,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert f"{name} is where the output of this command goes" in result.stderr
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "printed\n"


def test_a_link_is_followed(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "latest").symlink_to(tmp_path / "runs" / "1.txt")
    write_lines(tmp_path / "latest", ["new"])
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "runs" / "1.txt").read_text(encoding="utf-8") == "new\n"


def test_a_failed_write_leaves_the_old_file_alone(tmp_path):
    (tmp_path / "kept").write_text("old", encoding="utf-8")

    def lines():
        yield "half"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_lines(tmp_path / "kept", lines())
    assert [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()] == ["old"]
