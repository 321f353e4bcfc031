"""The problems of one document, and parsers for its amounts that add problems instead of raising."""

from dataclasses import replace

from webhook.mapping.document import schema_types as schema
from webhook.mapping.document.problem import MappingError, Path, Problem
from webhook.mapping.notation.amounts import parse_cores, parse_default_memory, parse_memory
from webhook.mapping.notation.numbers import Numbers, parse_numbers
from webhook.quantity import Number, QuantityError, parse_quantity
from webhook.request import Cores, Memory


class Problems:
    """Collects the problems of one document: compilation continues after each, so that all are reported at once."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._found: list[Problem] = []

    def add(self, path: Path, message: str, hint: str | None = None) -> None:
        """Add a problem."""
        self._found.append(Problem(message, path, hint))

    def extend(self, problems: list[Problem]) -> None:
        """Add the problems of another part of the compiler."""
        self._found.extend(problems)

    @property
    def found(self) -> tuple[Problem, ...]:
        """All problems, each once, with their source."""
        return tuple(dict.fromkeys(replace(problem, source=self._source) for problem in self._found))

    def stop_if_any(self) -> None:
        """Stop if there are problems.

        Raises:
            MappingError: all problems.
        """
        if self._found:
            raise MappingError(self.found)

    def numbers(self, path: Path, written: schema.Numbers | None) -> Numbers | None:
        """Parse a set of legal numbers."""
        if written is None:
            return None
        try:
            return parse_numbers(written)
        except ValueError as error:
            self.add(path, str(error))
            return None

    def number(self, path: Path, written: schema.Amount | None, default: Number) -> Number:
        """Parse a quantity above 0."""
        if written is None:
            return default
        try:
            number = parse_quantity(str(written))
        except QuantityError as error:
            self.add(path, str(error))
            return default
        if number <= 0:
            self.add(path, f"{written} is not above 0")
        return number

    def memory(self, path: Path, written: schema.Amount | None) -> Memory | None:
        """Parse an amount of memory."""
        try:
            return None if written is None else parse_memory(written)
        except ValueError as error:
            self.add(path, str(error))
            return None

    def default_memory(self, path: Path, written: schema.Amount | None) -> Memory | None:
        """Parse an amount of memory for a default."""
        try:
            return None if written is None else parse_default_memory(written)
        except ValueError as error:
            self.add(path, str(error))
            return None

    def cores(self, path: Path, written: schema.Amount | None) -> Cores | None:
        """Parse a percentage of the cores."""
        try:
            return None if written is None else parse_cores(written)
        except ValueError as error:
            self.add(path, str(error))
            return None
