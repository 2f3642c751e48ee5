# SPDX-License-Identifier: Apache-2.0
"""YAML files: the `fault_tolerance:` section as NVRx finds it, and Bridge's own configuration files."""

from __future__ import annotations

from typing import Any

from ...cli import InputError
from ...report.finding import Place
from ..model import HOLE, OtherKind, Setting, YamlFile
from .python import SLOTS

SECTION = "fault_tolerance"


def read_yaml(path: str, text: str, first_line: int = 1) -> YamlFile:
    """Read one file.

    Raises:
        InputError: it is no YAML; OtherKind for a Kubernetes manifest.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = list(yaml.load_all(text, Loader=loader))
        nodes = list(yaml.compose_all(text, Loader=loader))
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise InputError(f"{path}: no YAML that can be read: {' '.join(str(error).split())[:200]}") from error
    if any(isinstance(document, dict) and {"apiVersion", "kind"} <= set(document) for document in documents):
        raise OtherKind(
            f"{path}: Kubernetes manifests are not read. Put the container's command and env into a shell file and "
            "give that file."
        )
    section: Any = None
    line, lines = 0, {}
    for node in nodes:
        found = _find(node, set())
        if found is not None:
            line = found.start_mark.line + first_line
            pairs = found.value if isinstance(found, yaml.MappingNode) else []
            lines = {key.value: key.start_mark.line + first_line for key, _ in pairs if isinstance(key.value, str)}
            break
    for document in documents:
        section = _section(document, set())
        if section is not None:
            break
    settings: list[Setting] = []
    for document, node in zip(documents, nodes):
        if isinstance(document, dict) and isinstance(node, yaml.MappingNode):
            for key, value_node in node.value:
                if key.value in SLOTS:
                    place = Place(path, key.start_mark.line + first_line)
                    _flatten(key.value, document[key.value], value_node, place, first_line, settings)
    found = {str(key): _plain(value) for key, value in section.items()} if isinstance(section, dict) else None
    return YamlFile(path, found, line, lines, tuple(settings))


def _flatten(name: str, value: Any, node: Any, place: Place, first_line: int, settings: list[Setting]) -> None:
    if not isinstance(value, dict):
        settings.append(Setting(name, _plain(value), place, origin="yaml"))
        return
    settings.append(Setting(name, "{...}", place, origin="yaml"))
    at = {key.value: key.start_mark.line + first_line for key, _ in node.value} if isinstance(node.value, list) else {}
    for key, inner in value.items():
        settings.append(
            Setting(f"{name}.{key}", _plain(inner), Place(place.file, at.get(key, place.line)), origin="yaml")
        )


def _plain(value: Any) -> Any:
    """A value that another key or the environment decides (`${...}`, `???`) is unknown."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items() if not isinstance(inner, (dict, list))}
    return HOLE if isinstance(value, str) and ("${" in value or value == "???") else value


def _section(value: Any, seen: set[int]) -> Any:
    """The section as NVRx finds it: this level first, then depth first."""
    if id(value) in seen or not isinstance(value, (dict, list)):
        return None
    seen.add(id(value))
    if isinstance(value, dict) and SECTION in value:
        return value[SECTION]
    for inner in value.values() if isinstance(value, dict) else value:
        found = _section(inner, seen)
        if found:
            return found
    return None


def _find(node: Any, seen: set[int]) -> Any:
    """The section's node, found in the same order."""
    if id(node) in seen or not isinstance(getattr(node, "value", None), list):
        return None
    seen.add(id(node))
    pairs = [item for item in node.value if isinstance(item, tuple)]
    for key, value in pairs:
        if key.value == SECTION:
            return value
    for inner in [value for _, value in pairs] if pairs else node.value:
        found = _find(inner, seen)
        if found is not None:
            return found
    return None
