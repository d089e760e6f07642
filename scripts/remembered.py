"""What a client of the torture knows of a document that it writes again and again."""


class Remembered:
    """What clients know of one document. Values are numbers that never repeat; None is that there is none."""

    def __init__(self):
        self.value, self.perhaps, self.refused = None, set(), {}

    def acknowledged(self, value):
        self.value = value

    def why(self, value):
        """What was answered to a write that was not to take effect."""
        return f"; that was refused: {self.refused[value]}" if value is not None and value in self.refused else ""

    def may_be(self, value):
        """An operation of unknown outcome may take effect at any later time; so it may for ever."""
        return value == self.value or value in self.perhaps
