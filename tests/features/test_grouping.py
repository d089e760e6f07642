"""Groups of notes: each line is a grouping and what it makes, written as `value: outputs`, in the order of the names where
the grouping asks for no other. A number that a note lacks counts as 0."""

import pytest

GROUPINGS = [
    ("all(group(folder) each(output(count())))", ": 2 | Inbox: 1 | archive: 2 | inbox: 2 | sent mail: 1"),
    ("all(group(folder) order(-count(), -max(year)) max(2) each(output(count())))", ": 2 | archive: 2"),
    ("all(group(folder) order(-max(year)) max(2) each(output(max(year) as(latest))))", ": 2022 | archive: 2021"),
    ("all(group(folder) order(max(year)) max(1) each(output(max(year))))", "inbox: 2005"),
    (
        "all(group(year - year % 10) filter(range(1, 3000, year)) each(output(count())))",
        "1990: 1 | 2000: 1 | 2010: 2 | 2020: 3",
    ),
    (
        "all(group(predefined(year, bucket(1990, 2000), bucket(2000, 2015), bucket[2015, inf])) each(output(count())))",
        "1990..2000: 1 | 2000..2015: 3 | 2015..9223372036854775807: 3 | null: 1",
    ),
    (
        "all(group(fixedwidth(price, 2)) filter(range(-5, 99, price)) each(output(count())))",
        "-2.0..0.0: 1 | 0.0..2.0: 5 | 10.0..12.0: 1 | 2.0..4.0: 1",
    ),
    ("all(group(labels) each(output(count())))", "home: 1 | urgent: 1 | work: 2"),
    ("all(group(numbers) each(output(count())))", "1: 1 | 2: 1 | 3: 2 | 4: 1"),
    ("all(group(people.age) each(output(count())))", "30: 1 | 40: 2 | 50: 1"),
    ("all(group(people.first) each(output(count())))", "Ann: 2 | Bob: 2"),
    ("all(group(prefs.value) each(output(count())))", "blue: 1 | en: 1 | red: 1"),
    ('all(group(prefs{"color"}) each(output(count())))', "blue: 1 | red: 1"),
    ("all(group(strlen(folder)) each(output(count())))", "0: 2 | 5: 3 | 7: 2 | 9: 1"),
    ('all(group(strcat(folder, "!")) each(output(count())))', "!: 2 | Inbox!: 1 | archive!: 2 | inbox!: 2 | sent mail!: 1"),
    (
        "all(group(1) filter(range(-5, 99, price)) each(output(sum(price), avg(price), min(price), max(price), count())))",
        "1: 13.0 1.625 -1.0 10.0 8",
    ),
    ("all(output(count()))", "8"),
    ("all(group(folder) output(count()))", "5"),
    ("all(group(seen) filter(range(1995, 2006, year)) each(output(count())))", "false: 1 | true: 1"),
    ('all(group(folder) filter(regex("in.*", folder)) each(output(count())))', "inbox: 2"),
    ('all(group(folder) filter(not regex("in.*", folder)) each(output(count())))', ": 2 | Inbox: 1 | archive: 2 | sent mail: 1"),
    ("all(group(year % 2) filter(range(2000, 3000, year)) each(output(count())))", "0: 4 | 1: 2"),
    (
        "all(group(folder) filter(range(2000, 3000, year)) each(group(year) each(output(count()))))",
        ": [2022: 1] | Inbox: [2010: 1] | archive: [2020: 1 | 2021: 1] | inbox: [2005: 1] | sent mail: [2010: 1]",
    ),
    ("all(group(time.year(year * 31557600 - 62167219200)) filter(range(2015, 3000, year)) each(output(count())))", "2020: 1 | 2021: 1 | 2022: 1"),
    ("all(group(tostring(year)) filter(range(2015, 3000, year)) each(output(count())))", "2020: 1 | 2021: 1 | 2022: 1"),
    ("all(group(min(year, 2000)) filter(range(1, 3000, year)) each(output(count())))", "1999: 1 | 2000: 6"),
    ("all(where(true) group(folder) each(output(count())))", ": 2 | Inbox: 1 | archive: 2 | inbox: 2 | sent mail: 1"),
]


def told(group_list) -> list[str]:
    """The groups of a list as the table writes them."""
    return [f"{name_of(group)}: {outputs_of(group)}" for group in group_list["children"]]


def name_of(group) -> str:
    if limits := group.get("limits"):
        return f"{limits['from']}..{limits['to']}"
    return str(group.get("value", "null"))


def outputs_of(group) -> str:
    nested = [told(child) for child in group.get("children", []) if child["id"].startswith("grouplist:")]
    return f"[{' | '.join(sorted(nested[0]))}]" if nested else " ".join(str(value) for value in group["fields"].values())


@pytest.mark.parametrize("grouping, expected", GROUPINGS)
def test_groups(notes, grouping, expected):
    root = notes.search(yql=f"select * from note where true limit 0 | {grouping}")
    assert "errors" not in root, root["errors"]
    [group] = root["children"]
    lists = [child for child in group.get("children", []) if child["id"].startswith("grouplist:")]
    groups = told(lists[0]) if lists else [outputs_of(group)]
    assert " | ".join(groups if "order(" in grouping else sorted(groups)) == expected
