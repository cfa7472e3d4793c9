"""Options that several commands share, as one parameter.

    @dataclass(frozen=True)
    class SourceOptions:
        source: SourceArg
        namespace: NamespaceOption = None

    @bundled
    def inspect_command(source: SourceOptions, as_json: JsonFlag = False) -> None: ...

Typer reads a flat signature: `bundled` gives it one in which the fields of the dataclass stand in
the place of the parameter, and puts the values together again for the call.
"""

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, get_type_hints


def bundled(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters that are dataclasses are options for each of their fields."""
    hints = get_type_hints(command, include_extras=True)
    flat: dict[str, inspect.Parameter] = {}
    bundles: dict[str, tuple[type, list[str]]] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and is_dataclass(kind):
            fields = _parameters(kind)
            bundles[name] = (kind, list(fields))
            flat |= fields
        else:
            flat[name] = parameter.replace(
                annotation=kind, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD
            )

    def call(**values: Any) -> None:
        together = {
            name: kind(**{field: values.pop(field) for field in fields})
            for name, (kind, fields) in bundles.items()
        }
        command(**together, **values)

    # parameters without a default come first, as in every signature
    ordered = sorted(flat.values(), key=lambda p: p.default is not inspect.Parameter.empty)
    call.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    call.__doc__ = command.__doc__
    return call


def _parameters(bundle: type) -> dict[str, inspect.Parameter]:
    """The fields of a dataclass, those of its base classes included, as parameters."""
    hints = get_type_hints(bundle, include_extras=True)
    return {
        name: parameter.replace(
            annotation=hints[name], kind=inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
        for name, parameter in inspect.signature(bundle).parameters.items()
    }
