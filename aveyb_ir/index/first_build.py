"""The folder of an index that was never published: taken up again after a kill, left as found after a failure."""

import shutil
from pathlib import Path

from aveyb_ir.index.layout import Layout


def make_folder(root: Path) -> list[Path]:
    """Make a folder with its parents and give those that were not there, innermost first."""
    made = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(parents=True, exist_ok=True)
    return made


def begin_first_build(layout: Layout) -> None:
    """Mark a folder that holds no index, and remove what a killed build wrote there that cannot be gone on with.

    So the next build does the same again under the same names. For the holder of the lock only.
    """
    if layout.manifest.exists() or layout.finished_files():
        return
    for path in layout.own_files():
        if path.is_dir() and not path.is_symlink() and path != layout.encoding:
            shutil.rmtree(path)
        elif path not in (layout.lock, layout.encoding):
            path.unlink()
    layout.unpublished.open("xb").close()  # new, so that a link that lies in wait is not followed


def end_without_index(layout: Layout, made: list[Path]) -> None:
    """Leave nothing of a build that published nothing, unless encoded vectors wait there to be gone on with.

    `made` lists the folders made for it, innermost first. For the holder of the lock only.
    """
    if layout.manifest.exists() or set(layout.own_files()) - {layout.lock, layout.unpublished}:
        return
    layout.unpublished.unlink(missing_ok=True)
    layout.lock.unlink(missing_ok=True)
    for folder in made:
        if any(folder.iterdir()):
            break
        folder.rmdir()
