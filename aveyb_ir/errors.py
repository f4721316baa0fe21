"""What can go wrong with files, models and environments.

AveybError
├── DataError            a corpus, query, qrels, run or pair file that cannot be read as what it should be
├── RecipeError          a recipe or index specification with an unknown key or an impossible value
├── ModelError           a model folder that is missing, incomplete or of another kind
├── IndexDirError        an index directory that cannot be used
│   ├── IndexDamagedError    files missing, cut or not what the manifest says
│   ├── IndexMismatchError   an encoder or dimension other than the one the index was built with
│   └── IndexLockedError     another process is writing
└── MissingExtraError    an optional dependency is not installed

A bad *argument* is a plain ValueError. Every message says what was got, what was expected and what to do.
"""


class AveybError(Exception):
    """Base of all errors about files, models and environments; its message is one line fit for a terminal."""


class DataError(AveybError):
    """A data file is missing or malformed; the message names file and line."""


class RecipeError(AveybError):
    """A recipe or index specification has an unknown key or an impossible value."""


class ModelError(AveybError):
    """A model folder is missing, incomplete, or of another kind than needed."""


class IndexDirError(AveybError):
    """An index directory cannot be created, opened or changed."""


class IndexDamagedError(IndexDirError):
    """Files of an index directory are missing, cut, or not what its manifest says."""


class IndexMismatchError(IndexDirError):
    """The encoder or dimension differs from the one the index was built with."""


class IndexLockedError(IndexDirError):
    """Another process is writing to the index directory."""


class MissingExtraError(AveybError):
    """An optional dependency is not installed; the message names the extra that brings it."""
