"""Reads manifest files: YAML or JSON, with any number of documents."""

import json

import yaml

from webhook.cli.manifests.json_text import read_json
from webhook.cli.manifests.manifest import Manifest, ManifestError
from webhook.cli.manifests.yaml_text import read_yaml


def read_manifests(body: bytes, source: str) -> list[Manifest]:
    """Read the documents of a file, except empty ones.

    Args:
        body: the content of the file, UTF-8.
        source: its name in messages.

    Raises:
        ManifestError: neither YAML nor JSON, a document that is not a mapping, or a key that occurs twice.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(source, body.count(b"\n", 0, error.start) + 1, "not UTF-8 text") from error
    try:
        if text.lstrip()[:1] == "{":
            # JSON is nearly YAML, except for tabs, surrogate pairs and documents without a marker between them.
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
        reason = ", ".join(part for part in (error.problem, error.context) if part)
        last = text.rstrip("\n").count("\n")  # libyaml reports the end of a text one line too late
        raise ManifestError(
            source, None if mark is None else min(mark.line, last) + 1, f"not YAML: {reason}"
        ) from error
