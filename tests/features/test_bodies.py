"""Bodies of queries as people write them: each is a query for the notes of 1999, or is refused."""

import json
import urllib.error
import urllib.request

import pytest
from packages import QUERY_TIMEOUT

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
YQL = "select * from note where year = 1999"

BODIES = [
    (JSON, f'{{"yql": "{YQL}", "streaming.groupname": "me"}}', 200),
    (JSON, f"{{'yql': '{YQL}', 'streaming.groupname': 'me'}}", 200),
    (JSON, '{"yql": "select *\n  from note\n\twhere year = 1999\r\n", "streaming.groupname": "me"}', 200),
    (JSON, "{\n'yql': 'select *\n from note where year = 1999', \"streaming\": {\t\"groupname\": \"me\"}}", 200),
    (JSON, f'\ufeff{{"yql": "{YQL}", "streaming.groupname": "me"}}', 200),
    ("Application/JSON; Charset=UTF-8", f'{{"yql": "{YQL}", "streaming.groupname": "me"}}', 200),
    (FORM, "yql=select+*+from+note+where+year+%3D+1999&streaming.groupname=me", 200),
    (FORM.upper(), "yql=select+*+from+note+where+year+%3D+1999&streaming.groupname=me", 200),
    (JSON, json.dumps({"select": json.dumps({"where": {"equals": ["year", 1999]}}), "streaming.groupname": "me"}), 200),
    (JSON, json.dumps({"select": {"where": '{"equals": ["year", 1999]}', "fields": '["year"]'}, "streaming.groupname": "me"}), 200),
    (JSON, f'{{"yql": "{YQL}", "streaming.groupname": "me",}}', 400),
    (JSON, f'{{"yql": "{YQL}, "streaming.groupname": "me"}}', 400),
    (JSON, "", 400),
    ("text/plain", f'{{"yql": "{YQL}", "streaming.groupname": "me"}}', 400),
]


@pytest.mark.parametrize("media_type, body, expected", BODIES)
def test_bodies(notes, media_type, body, expected):
    request = urllib.request.Request(notes.node.data + "/search/", body.encode(), {"content-type": media_type})
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            status, root = response.status, json.load(response)["root"]
    except urllib.error.HTTPError as error:
        status, root = error.code, json.load(error)["root"]
    assert status == expected, root
    if expected == 200:
        assert [hit["fields"]["year"] for hit in root["children"]] == [1999], root


@pytest.mark.parametrize("line, body, expected", [
    ("hits=1", {"hits": 2}, 1),
    ("hits=2", {"hits": 1}, 2),
    ("", {"hits": 2}, 2),
    ("hits=1", {}, 1),
])
def test_the_request_line_takes_precedence(notes, line, body, expected):
    asked = {"yql": "select * from note where true", "streaming.groupname": "me", "timeout": QUERY_TIMEOUT} | body
    status, answer = notes.call("POST", f"/search/?{line}", asked)
    assert (status, len(answer["root"]["children"])) == (200, expected)
