"""The messages that the documentation explains are messages of the source."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]


def source():
    """All Rust code, with literals that continue on the next line joined."""
    files = sorted((ROOT / "crates").glob("*/src/**/*.rs"))
    text = "\n".join(file.read_text() for file in files)
    return re.sub(r"\\\n\s*", "", text)


def messages():
    page = (ROOT / "docs/troubleshooting.md").read_text()
    for row in re.findall(r"^\| .*$", page, re.MULTILINE):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        cell = cells[1] if re.fullmatch(r"\d{3}", cells[0]) else cells[0]
        yield from re.findall(r"^`([^`]+)`$", cell)


def test_every_message_is_in_the_source():
    text = source()
    # A value, or the end of one and the beginning of another.
    value = r"[^\"\n]{0,60}?"
    found = list(messages())
    assert len(found) > 25
    missing = []
    for message in found:
        parts = [re.escape(part.strip()) for part in message.split("…") if part.strip()]
        if not re.search(value.join(parts), text):
            missing.append(message)
    assert not missing, missing
