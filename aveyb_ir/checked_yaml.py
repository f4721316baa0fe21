"""YAML files that are checked field by field: what is wrong with them, said so that a person can mend it."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from aveyb_ir.errors import RecipeError

_ModelT = TypeVar("_ModelT", bound=BaseModel)


class Section(BaseModel):
    """Base of everything read from YAML: unknown keys, values of another type, NaN and infinity are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def read_yaml(path: Path, what: str) -> Any:
    """Read a file in which a key may come only once; `what`, such as "a recipe", names it in messages.

    Raises RecipeError for what cannot be read or is not YAML in UTF-8.
    """
    try:
        return parse_yaml(path.read_bytes(), str(path))
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror}, expected {what}; give the path of a YAML file") from None


def parse_yaml(text: str | bytes, source: str) -> Any:
    """Read YAML from memory; `source` says in messages where it came from. Raises RecipeError like `read_yaml`."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise RecipeError(f"{source} line {line}: got {error.problem}, expected YAML; correct the line") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise RecipeError(f"{source}: got {reason}, expected YAML in UTF-8; save the file as UTF-8 text") from None


def validated(model: type[_ModelT], values: object, source: str, see: str) -> _ModelT:
    """Check values field by field.

    Raises RecipeError with every mistake, each by its dotted key; `see` says where the fields are described.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        mistakes = "; ".join(_explain(detail, model) for detail in error.errors())
        raise RecipeError(f"{source}: {mistakes} ({see})") from None


def read_recipe(
    path: str | os.PathLike[str], overrides: Sequence[str], what: str, model: type[BaseModel]
) -> dict[str, Any]:
    """Read the mapping that a recipe is, unchecked but for its form, and put the overrides in.

    A value that starts with `./` or `../` becomes absolute: from the folder of the file in the file, from the working
    directory in an override, so that it means the same in a copy elsewhere.

    Raises:
        RecipeError: An unreadable file, or one that is not a mapping; `what` and the fields of `model` say what it
            should be.
        ValueError: An override that is not of the form `section.key=value`.
    """
    path = Path(path)
    values = read_yaml(path, what)
    if not isinstance(values, dict):
        fields = ", ".join(model.model_fields)
        raise RecipeError(f"{path}: got {shown(values)}, expected the sections {fields}; write them as `name:`")
    anchored: dict[str, Any] = _anchored(values, path.parent)
    for override in overrides:
        _override(anchored, override, model)
    return anchored


def shown(value: object) -> str:
    """Give a value as messages show it, cut to a readable length."""
    if isinstance(value, Mapping):
        return "a mapping"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _anchored(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {key: _anchored(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_anchored(item, folder) for item in value]
    if isinstance(value, str) and value.startswith(("./", "../")):
        return os.path.abspath(folder / value)  # noqa: PTH100 - resolve() would follow links
    return value


def _override(values: dict[str, Any], override: str, model: type[BaseModel]) -> None:
    dotted, equals, text = override.partition("=")
    *parents, key = dotted.strip().split(".")
    if not (equals and key and all(parents)) or not (parents or key in model.model_fields):
        raise ValueError(f"override {override!r}: expected section.key=value, such as train.batch_size=32")
    target = values
    for name in parents:
        if not isinstance(target.get(name), dict):
            target[name] = {}
        target = target[name]
    target[key] = _anchored(parse_yaml(text, f"override {override!r}"), Path())


class _Loader(yaml.SafeLoader):
    """Safe YAML that reads 1e-4 as a number, as YAML 1.2 does, and refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: list[Any] = []
        for key_node, _ in node.value:
            key = self.construct_object(key_node)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} is given twice", key_node.start_mark)
            seen.append(key)
        return super().construct_mapping(node, deep)


_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


def _explain(detail: ErrorDetails, model: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in detail["loc"]) or model.__name__.lower()
    if detail["type"] == "extra_forbidden":
        return f"{key}: unknown key, {_nearest(key, model)}"
    if detail["type"] == "missing":
        return f"{key}: missing; add it"
    if detail["type"] == "value_error":
        return f"{key}: got {detail['ctx']['error']}"
    expected = detail["msg"].removeprefix("Input should be ")
    return f"{key}: got {shown(detail['input'])}, expected {expected}"


def _nearest(key: str, model: type[BaseModel]) -> str:
    """Advice for an unknown key: the known one most like it, or else all of its section."""
    known = list(_dotted_keys(model))
    parent, _, name = key.rpartition(".")
    siblings = [other for other in known if other.rpartition(".")[0] == parent]
    elsewhere = [other for other in known if other.rpartition(".")[2] == name]
    close = difflib.get_close_matches(key, siblings, n=1, cutoff=0.75) or elsewhere[:1]
    close = close or difflib.get_close_matches(key, known, n=1, cutoff=0.8)
    return (
        f"did you mean {close[0]}?"
        if close
        else f"expected one of {', '.join(other.rpartition('.')[2] for other in siblings)}"
    )


def _dotted_keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        yield prefix + name
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from _dotted_keys(part, f"{prefix}{name}.")
