"""Compiles the forms of a document."""

from collections.abc import Mapping

from webhook.mapping.compile.keys import compile_override
from webhook.mapping.compile.problems import Problems
from webhook.mapping.document import schema
from webhook.mapping.document.problem import Path
from webhook.mapping.document.schema_types import Numbers
from webhook.mapping.model.vendor import Condition, Derived, Form, Key
from webhook.mapping.requests.denials import PLACEHOLDER, VALUES
from webhook.request import DIMENSIONS, Dimension, Request

ByDimension = Mapping[Dimension, tuple[str, ...]]


class FormCompiler:
    """Compiles the forms of one document.

    Args:
        document: for its variables, whose rows can define a dimension.
        keys: the compiled keys.
        by_dimension: the names of keys by dimension.
        problems: collects problems.
    """

    def __init__(
        self, document: schema.Mapping, keys: Mapping[str, Key], by_dimension: ByDimension, problems: Problems
    ) -> None:
        self._document = document
        self._keys = keys
        self._by_dimension = by_dimension
        self._problems = problems

    def compile(self, index: int, form: schema.Form) -> Form:
        """Compile the form at `index`."""
        keys = self._keys
        path: Path = ("forms", index)
        when = tuple(self._condition((*path, "when", key), key, value) for key, value in form.when.items())
        devices: int | Derived | None = None
        if isinstance(form.devices, schema.Derived):
            if form.devices.key not in keys:
                self._problems.add((*path, "devices", "key"), f"no key is called {form.devices.key!r}", _listing(keys))
            devices = Derived(form.devices.key, form.devices.per, form.devices.round)
        elif form.devices is not None:
            devices = form.devices
            if devices < 1:
                self._problems.add((*path, "devices"), "less than one device")
        compiled = Form(
            name=form.name or f"form {index + 1}",
            when=when,
            deny=form.deny,
            leave=form.leave,
            devices=devices,
            memory=self._problems.memory((*path, "memory"), form.memory),
            cores=self._problems.cores((*path, "cores"), form.cores),
            absent=Request(
                form.absent.devices,
                self._problems.memory((*path, "absent", "memory"), form.absent.memory),
                self._problems.cores((*path, "absent", "cores"), form.absent.cores),
            ),
            keys={
                name: compile_override((*path, "keys", name), key, form.keys.get(name), self._problems)
                for name, key in keys.items()
            },
            own_values=frozenset(name for name, rule in form.keys.items() if "values" in rule.model_fields_set),
            write=form.write,
            unlimited=form.unlimited,
        )
        for name in form.keys.keys() - keys.keys():
            self._problems.add((*path, "keys", name), f"no key is called {name!r}", _listing(keys))
        if compiled.reads:
            self._check_dimensions(path, compiled)
        else:
            self._check_no_other_keys(path, form)
        return compiled

    def _check_dimensions(self, path: Path, form: Form) -> None:
        rows = [row for variable in self._document.variables.values() for row in (variable.rows or {}).values()]
        for dimension in DIMENSIONS:
            by_row = any(getattr(row, dimension) is not None for row in rows)
            if (
                form.literal(dimension)
                or self._by_dimension[dimension]
                or by_row
                or getattr(form.absent, dimension) is not None
            ):
                continue
            self._problems.add(
                path, f"nothing defines {dimension}", f"add `{dimension}:` or `absent: {{{dimension}: …}}`"
            )

    def _check_no_other_keys(self, path: Path, form: schema.Form) -> None:
        key, effect = ("deny", "denies") if form.deny is not None else ("leave", "leaves unchanged")
        for name in PLACEHOLDER.findall(form.deny or form.leave or ""):
            if name not in self._keys and (name not in VALUES or key == "leave"):
                self._problems.add((*path, key), f"no key is called {name!r}", _listing(self._keys))
        if form.model_fields_set & {"devices", "memory", "cores", "absent", "keys", "write", "name", "unlimited"} or (
            form.deny is not None and form.leave is not None
        ):
            self._problems.add(path, f"a form that {effect} has no other keys", f"keep `when` and `{key}`")

    def _condition(self, path: Path, name: str, value: Numbers) -> Condition:
        keys, by_dimension = self._keys, self._by_dimension
        items = value if isinstance(value, list) else [value]
        numbers = [item for item in items if item not in {"absent", "present"}]
        absent, present = "absent" in items, "present" in items
        if name in by_dimension and name not in keys:
            if numbers:
                self._problems.add(path, "a dimension can be `absent` or `present`", "for numbers, name a key")
            return Condition(by_dimension[name], absent, present)  # type: ignore[index]
        if name not in keys:
            self._problems.add(path, f"no key is called {name!r}", _listing(keys))
            return Condition((), absent, present)
        if keys[name].kind == "text":
            return Condition((name,), absent, present, None, tuple(dict.fromkeys(map(str, numbers))))
        return Condition((name,), absent, present, self._problems.numbers(path, numbers) if numbers else None)


def _listing(keys: Mapping[str, Key]) -> str:
    return f"keys are {', '.join(keys)}"
