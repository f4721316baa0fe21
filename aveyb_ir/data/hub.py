"""Data sets in the layout of the Hugging Face Hub, there or in a local copy: which files make up which part.

A data set has configs, such as `corpus` and `queries`, and each of them splits. Which files they are is said in the
head of its README, under `configs`; without that, names say it: `corpus.jsonl.gz` or a folder `corpus`, and `train`,
`dev`, `test` in a file's path.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import yaml

from aveyb_ir.data.records import is_data_file
from aveyb_ir.errors import DataError

_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_FORMATS = ".parquet, .jsonl, .json or .tsv"
_SPLIT_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}


def names_dataset(source: str | Path) -> bool:
    """Whether a source is a folder, or can be `owner/name` on the Hub, either with `:config` or `:config:split`.

    What exists as a path is that path; a name that ends like a data file is a path too, existing or not.
    """
    location = _parts(source)[0]
    return Path(location).is_dir() or (
        bool(_NAME.fullmatch(location)) and not is_data_file(location) and not Path(location).exists()
    )


def dataset_files(source: str | Path, *, configs: Sequence[str] = (), splits: Sequence[str] = ()) -> list[Path]:
    """Find, and if need be download, the files of one config and split of a data set.

    `source` is as in `names_dataset`. A config or split that it does not name is the first of `configs` or `splits`
    that is there, else the only one there is.

    Raises:
        DataError: the data set cannot be fetched or has no such config or split, or there are several to choose from.
    """
    location, config, split = _parts(source)
    dataset = HubDataset(location)
    if dataset.configs:
        config = _choice(location, "config", dataset.configs, config, (*configs, "default"))
    elif config is None:
        config = next((name for name in configs if dataset.splits(name)), None)
    found = dataset.splits(config)
    where = location if config is None else f"{location}:{config}"
    if not found:
        raise DataError(f"{where} has no data files; expected {_FORMATS}; check the path")
    return found[_choice(where, "split", tuple(found), split, splits)]


class _Config(NamedTuple):
    """What a README says of a config: its folder, and path patterns by split; without patterns, names tell splits."""

    folder: str
    patterns: dict[str, list[str]]


class HubDataset:
    """A data set by its folder, or by its `owner/name` on the Hub.

    From the Hub only the files that are asked for are downloaded, once, into its cache; cached ones need no network.

    Raises:
        DataError: it is not here and cannot be fetched, or the head of its README is malformed.
    """

    def __init__(self, location: str | Path) -> None:
        self.location = str(location)
        # Every repository on the Hub has .gitattributes, so that one without a README is not taken for a missing one.
        readme = self._folder(["README.md", ".gitattributes"]) / "README.md"
        self._declared = _declared_configs(readme) if readme.is_file() else {}

    @property
    def configs(self) -> tuple[str, ...]:
        """Names of the configs that the README declares, in its order."""
        return tuple(self._declared)

    def splits(self, config: str | None = None) -> dict[str, list[Path]]:
        """Files of each split, sorted by name; of the whole data set, or of one config.

        Where the README declares no configs, one is told by names, and is empty if no name fits.
        """
        declared = self._declared[config] if config is not None and self._declared else _Config("", {})
        if declared.patterns:
            folder = self._folder([pattern for of_split in declared.patterns.values() for pattern in of_split])
            return {split: _matching(folder, of_split) for split, of_split in declared.patterns.items()}
        folder = self._folder([f"{declared.folder}/**"] if declared.folder else None) / declared.folder
        found: dict[str, list[Path]] = {}
        for file in _data_files(folder):
            path = file.relative_to(folder).as_posix()
            if config is None or self._declared or re.match(rf"{re.escape(config)}[/.]", path):
                found.setdefault(_split_in(path), []).append(file)
        return found

    def _folder(self, patterns: list[str] | None) -> Path:
        """The folder that holds the files of these patterns, or all files."""
        if Path(self.location).is_dir():
            return Path(self.location)
        if not _NAME.fullmatch(self.location):
            raise DataError(f"{self.location} is not a folder; expected one, or owner/name on the Hub; check the path")
        from huggingface_hub import snapshot_download  # takes longer to import than most files to read
        from huggingface_hub.errors import LocalEntryNotFoundError

        try:
            return Path(snapshot_download(self.location, repo_type="dataset", allow_patterns=patterns))
        except LocalEntryNotFoundError as error:
            raise self._unavailable("not in its cache, and the network is off or out of reach") from error
        except (OSError, ValueError) as error:
            raise self._unavailable(str(error).strip().splitlines()[0]) from error

    def _unavailable(self, reason: str) -> DataError:
        return DataError(
            f"{self.location} is no path here and cannot be fetched from the Hugging Face Hub ({reason}); expected an "
            f"existing path, or the owner/name of a data set; check it, or run where there is a network: "
            f"hf download {self.location} --repo-type dataset"
        )


def _parts(source: str | Path) -> tuple[str, str | None, str | None]:
    """Location, config and split of a source; what exists under its whole name has no more parts."""
    text = str(source)
    location, *rest = text.split(":")
    if Path(text).exists() or len(rest) > 2:
        return text, None, None
    config, split = (*(part or None for part in rest), None, None)[:2]
    return location, config, split


def _choice(where: str, what: str, there: tuple[str, ...], asked: str | None, preferred: Sequence[str]) -> str:
    listed = ", ".join(there)
    if asked is not None:
        if asked not in there:
            raise DataError(f"{where} has no {what} {asked!r}; expected one of {listed}; choose one")
        return asked
    for name in preferred:
        if name in there:
            return name
    if len(there) > 1:
        raise DataError(f"{where} has several {what}s; expected one of {listed}; add it as {where}:{what.upper()}")
    return there[0]


def _declared_configs(readme: Path) -> dict[str, _Config]:
    from huggingface_hub import metadata_load

    try:
        configs = (metadata_load(readme) or {}).get("configs") or []
        return {str(config["config_name"]): _config(config) for config in configs}
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{readme}: its head cannot be read ({type(error).__name__}: {reason}); expected YAML with configs as on "
            "the Hub: config_name, and data_files with split and path; mend or remove it"
        ) from error


def _config(config: Mapping[str, Any]) -> _Config:
    folder = _inside(config.get("data_dir") or "")
    files = config.get("data_files") or []
    patterns: dict[str, list[str]] = {}
    for entry in [files] if isinstance(files, (str, dict)) else files:
        split, path = (entry["split"], entry["path"]) if isinstance(entry, dict) else ("train", entry)
        for pattern in [path] if isinstance(path, str) else path:
            patterns.setdefault(str(split), []).append(_inside(f"{folder}/{pattern}" if folder else pattern))
    return _Config(folder, patterns)


def _inside(pattern: str) -> str:
    path = PurePosixPath(pattern)
    if path.is_absolute() or ".." in path.parts or ":" in pattern:
        raise ValueError(f"{pattern!r} is not a path inside the data set")
    return "" if pattern == "" else str(path)


def _matching(folder: Path, patterns: Sequence[str]) -> list[Path]:
    matching = {file for pattern in patterns for file in folder.glob(_glob(pattern)) if file.is_file()}
    if not (files := sorted(file for file in matching if is_data_file(file.name))):
        raise DataError(
            f"{folder} has no file {' or '.join(patterns)}, which its README names, in a format that is read here; "
            f"expected {_FORMATS}; fetch the files again, or convert them"
        )
    return files


def _glob(pattern: str) -> str:
    return f"{pattern}/*" if pattern.endswith("**") else pattern


def _data_files(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if not hidden and is_data_file(file.name) and file.is_file():
            yield file


def _split_in(path: str) -> str:
    words = re.split(r"[^a-z]+", path.lower())
    return next((split for split, known in _SPLIT_WORDS.items() if any(word in words for word in known)), "train")
