"""Knowledge of a client of the torture about a document that it writes again and again."""

from typing import Any


class Remembered:
    """Knowledge about one document. Values are numbers that never repeat; None: the document does not exist."""

    def __init__(self) -> None:
        self.value: int | None = None
        # Values of writes of unknown outcome.
        self.perhaps: set[int | None] = set()
        # Values of refused writes, each with the answer.
        self.refused: dict[int | None, tuple[int | None, Any]] = {}

    def acknowledged(self, value: int | None) -> None:
        self.value = value

    def why(self, value: int | None) -> str:
        """The answer to a refused write of this value, as the end of a sentence; empty if there was none."""
        return f"; that was refused: {self.refused[value]}" if value is not None and value in self.refused else ""

    def may_be(self, value: int | None) -> bool:
        """True if the document may have this value: a write of unknown outcome may take effect at any later time."""
        return value == self.value or value in self.perhaps
