"""What is wrong with data, in words."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used as they are; the message says what, where, and what to do."""


class ColumnError(DataError):
    """A column that cannot be used.

    name: of the column
    row: counted from 1; None where all rows are meant
    words: what is wrong
    remedy: what to do
    """

    def __init__(self, name: str, words: str, remedy: str = "", *, row: int | None = None):
        self.name, self.words, self.remedy, self.row = name, words, remedy, row
        super().__init__(self.sentence("X"))

    def sentence(self, where: str, *, before: int = 0) -> str:
        """The whole sentence; `before` rows of the file came before those that were looked at."""
        place = f", row {self.row + before}" if self.row is not None else ""
        return f"{where}, column {self.name}{place}: {self.words}{'; ' + self.remedy if self.remedy else ''}."

    def short(self) -> str:
        """For a list of several."""
        return f"{self.name} ({f'row {self.row}: ' if self.row is not None else ''}{self.words})"


def refuse(where: str, found: list[ColumnError]) -> None:
    """Raise one error for all bad columns, if there are any."""
    if len(found) == 1:
        raise DataError(found[0].sentence(where)) from None
    if found:
        names = ",".join(error.name for error in found)
        raise DataError(
            f"{where} has {len(found)} columns that cannot be used: {'; '.join(e.short() for e in found)}; repair them "
            f"or pass --drop {names}."
        ) from None
