"""`Config`: a frozen group of settings whose errors say what was expected and what came."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gelgt.errors import GelgtError, did_you_mean


class Config(BaseModel):
    """Frozen, and strict about names: an unknown or wrong value is a GelgtError that says what is
    allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    section: ClassVar[str] = ""  # of a setting's path, such as model.width

    def __init__(self, **values: object) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0]) if first["loc"] else type(self).__name__
            path = f"{self.section}.{name}" if self.section else name
            properties = type(self).model_json_schema()["properties"]
            if name not in properties:
                raise GelgtError(
                    "bad_config",
                    f"There is no setting {path}.",
                    hint=did_you_mean(name, properties),
                ) from None
            value = values.get(name, first.get("input"))
            raise GelgtError(
                "bad_config",
                f"{path} must be {_allowed(properties[name])}, got {value!r}.",
                hint="`gelgt config show` says what each setting means.",
            ) from None


def _allowed(schema: Mapping[str, Any]) -> str:
    """What a field takes, in words.

    >>> _allowed({"type": "integer", "minimum": 8}), _allowed({"enum": ["layer", "batch"]})
    ('an integer of at least 8', "'layer' or 'batch'")
    """
    if "anyOf" in schema:
        return " or ".join(_allowed(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        choices = [repr(choice) for choice in schema.get("enum", [schema.get("const")])]
        return " or ".join([", ".join(choices[:-1])] * (len(choices) > 1) + choices[-1:])
    if schema.get("type") == "array":
        return f"a list of {_allowed(schema['items'])}"
    kinds = {"integer": "an integer", "number": "a number", "boolean": "true or false"}
    words = {
        "minimum": "of at least",
        "exclusiveMinimum": "above",
        "maximum": "of at most",
        "exclusiveMaximum": "below",
        "multipleOf": "that is a multiple of",
    }
    limits = [f"{word} {schema[key]:g}" for key, word in words.items() if key in schema]
    kind = {**kinds, "null": "none", "string": "text"}.get(str(schema.get("type")), "a valid value")
    return f"{kind} {' and '.join(limits)}".rstrip()
