"""From what a user writes, a path or a public name, to the collection it means."""

from pathlib import Path

from aveyb_ir.data.beir import BeirFolder
from aveyb_ir.data.collection import Collection
from aveyb_ir.data.corpus import CORPUS, QUERIES, find_in_folder
from aveyb_ir.data.hub import HubDataset, names_dataset
from aveyb_ir.data.hub_collection import HubCollection
from aveyb_ir.errors import DataError


def open_collection(source: str | Path) -> Collection:
    """Open a retrieval data set: a BEIR folder, a data set on the Hugging Face Hub, or a folder with a copy of one.

    What exists as a path is that path. Anything else must be written `owner/name`, such as `BeIR/nq`; see
    `HubCollection` for the layouts. The texts are not read.

    Raises:
        DataError: there is no such folder or data set, or it is of another layout.
    """
    path = Path(source)
    if not path.is_dir():
        if not names_dataset(source):
            raise DataError(
                f"{source} is not a folder; expected a BEIR folder, or owner/name of a data set on the Hugging Face "
                f"Hub, such as BeIR/nq; check the path"
            )
        return HubCollection(source)
    if (path / "qrels").is_dir() and find_in_folder(path, f"{CORPUS}.jsonl"):
        return BeirFolder(path)
    if CORPUS in HubDataset(path).configs or path.with_name(f"{path.name}-qrels").is_dir():
        return HubCollection(path)
    return BeirFolder(path)


def open_collections(source: str | Path) -> tuple[Collection, ...]:
    """Open a retrieval data set that may come in parts, as CQADupStack does in twelve folders.

    A folder that is no collection but holds BEIR folders gives those, sorted, each named after both folders
    (`cqadupstack/android`); anything else gives the one collection of `open_collection`.

    Raises:
        DataError: as `open_collection`.
    """
    path = Path(source)
    if path.is_dir() and not _is_beir(path):
        parts = sorted(part for part in path.iterdir() if part.is_dir() and _is_beir(part))
        if parts:
            return tuple(BeirFolder(part, name=f"{path.resolve().name}/{part.name}") for part in parts)
    return (open_collection(source),)


def _is_beir(folder: Path) -> bool:
    return all(find_in_folder(folder, f"{stem}.jsonl") for stem in (CORPUS, QUERIES))
