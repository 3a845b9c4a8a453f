"""CloudFormation's intrinsic functions, as far as synthesized templates use them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tidegate_local.errors import LocalError

NO_VALUE = object()
"""What `{"Ref": "AWS::NoValue"}` stands for: the property is left out."""

_PLACEHOLDER = re.compile(r"\$\{(!?)([A-Za-z0-9_.:]+)\}")


class Resolver:
    """Replaces intrinsic functions by values; `ref` and `attribute` say what names stand for."""

    def __init__(self, ref: Callable[[str], Any], attribute: Callable[[str, str], Any]) -> None:
        self._ref = ref
        self._attribute = attribute

    def resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            resolved = [self.resolve(each) for each in value]
            return [each for each in resolved if each is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            name, argument = next(iter(value.items()))
            if name == "Ref" or name.startswith("Fn::"):
                return self._apply(name, argument)
        resolved_items = {key: self.resolve(each) for key, each in value.items()}
        return {key: each for key, each in resolved_items.items() if each is not NO_VALUE}

    def _apply(self, name: str, argument: Any) -> Any:
        match name:
            case "Ref":
                return self._ref(argument)
            case "Fn::GetAtt":
                resource, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
                return self._attribute(resource, attribute)
            case "Fn::Join":
                separator, parts = argument
                return separator.join(str(each) for each in self.resolve(parts))
            case "Fn::Sub":
                return self._substitute(*(argument if isinstance(argument, list) else [argument, {}]))
            case "Fn::Select":
                index, choices = argument
                return self.resolve(choices)[int(self.resolve(index))]
            case "Fn::Split":
                separator, text = argument
                return self.resolve(text).split(separator)
        raise LocalError(f"the template uses {name}, which the local stack cannot evaluate: {argument!r}")

    def _substitute(self, text: str, variables: dict[str, Any]) -> str:
        def value_of(match: re.Match[str]) -> str:
            literal, name = match.groups()
            if literal:
                return f"${{{name}}}"
            if name in variables:
                return str(self.resolve(variables[name]))
            if "." in name:
                return str(self._attribute(*name.split(".", 1)))
            return str(self._ref(name))

        return _PLACEHOLDER.sub(value_of, text)
