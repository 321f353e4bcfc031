"""Manifest files: YAML or JSON, many documents in each."""

import json

import yaml

from webhook.cli.manifests.json_text import read_json
from webhook.cli.manifests.manifest import Manifest, ManifestError
from webhook.cli.manifests.yaml_text import read_yaml


def read_manifests(body: bytes, source: str) -> list[Manifest]:
    """The documents of a file, empty ones left out.

    Args:
        body: the file's bytes, UTF-8.
        source: how messages name it.

    Raises:
        ManifestError: neither YAML nor JSON, a document that is no mapping, or a key that stands twice.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(source, body.count(b"\n", 0, error.start) + 1, "not UTF-8 text") from error
    try:
        if text.lstrip()[:1] == "{":
            # JSON is nearly YAML: tabs, surrogate pairs and a missing document mark are what would fail below
            try:
                return list(read_json(text, source))
            except json.JSONDecodeError:
                pass
        return list(read_yaml(text, source))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ManifestError(source, line, f"a character that YAML does not permit: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.problem, error.context) if part)
        last = text.rstrip("\n").count("\n")  # libyaml finds the end of a text one line below it
        raise ManifestError(source, None if mark is None else min(mark.line, last) + 1, f"not YAML: {said}") from error
