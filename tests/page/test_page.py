"""The page at `/`, in a real browser.

Without a browser these tests are left out; `make page` requires one. It also writes the pictures of the
documentation.
"""

import http.server
import json
import os
import pathlib
import subprocess
import threading
import time
import urllib.request

import pytest

from browser import Browser, executable
from node import ROOT, Node, binary, free_ports
from packages import call, deploy

PICTURES = os.environ.get("MILLRACE_PICTURES")
ENTER = ("Enter", 13)

pytestmark = pytest.mark.skipif(executable() is None, reason="no browser: `make page` says how to get one")


def mail(number: int, **fields) -> dict:
    return {
        "subject": f"Letter {number}", "body": "The river rises in spring.", "folder": "inbox" if number % 3 else "archive",
        "date": 1_700_000_000 + number * 86_400, "has_attachment": number % 2 == 0, "size": number * 100,
        "from_name": "Ann Miller", "from_address": "ann@example.com", "thread": f"t{number}",
    } | fields


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("page") / "data", *free_ports(2), "--app", ROOT / "examples" / "mail")
    for group, count in {"ann": 30, "bob": 3}.items():
        for number in range(count):
            put(node, group, str(number), mail(number))
    hostile = mail(99, subject="<img src=x onerror=\"document.title='broken in'\"> onslaught", body="<script>document.title='broken in'</script>")
    put(node, "ann", "a:b/ç", hostile)
    yield node
    node.stop()


def put(node, group: str, name: str, fields: dict):
    path = f"{node.data}/document/v1/mail/mail/group/{group}/{urllib.request.quote(name, safe='')}"
    status, answer = call("POST", path, {"fields": fields})
    assert status == 200, answer


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    browser = Browser(executable(), tmp_path_factory.mktemp("profile"))
    yield browser
    browser.stop()


@pytest.fixture
def browser(shared):
    shared.size(1100, 900)
    shared.scheme("light")
    shared.faults.clear()
    yield shared
    assert shared.faults == []


def opened(browser, node, path="/", group="ann"):
    """The page, with this group open."""
    browser.open(node.data + path)
    browser.evaluate("sessionStorage.clear()")
    browser.until("document.querySelectorAll('#groups li').length > 0")
    if group:
        browser.click(f'[data-group="{group}"]')
        done(browser)


def done(browser):
    return browser.until("/match|wrong|error|number/.test(document.querySelector('#status').innerText) && document.querySelector('#status').innerText")


def titles(browser) -> list[str]:
    return browser.evaluate("[...document.querySelectorAll('#results .title')].map((one) => one.innerText)")


def sent(browser, words: str):
    browser.evaluate("document.querySelector('#words').value = ''; document.querySelector('#status').innerText = ''")
    browser.click("#words")
    browser.type(words)
    browser.press(*ENTER)
    return done(browser)


def chosen(browser, selector: str, value: str):
    browser.evaluate(
        f"(() => {{ const one = document.querySelector({json.dumps(selector)}); one.value = {json.dumps(value)};"
        " one.dispatchEvent(new Event('change')); })()"
    )
    assert browser.evaluate(f"document.querySelector({json.dumps(selector)}).value") == value, "it is offered"


def test_groups_and_their_sizes(browser, node):
    opened(browser, node, group=None)
    lines = browser.text("#groups")
    assert "ann\n31 documents" in lines and "bob\n3 documents" in lines
    assert "chosen" not in lines and titles(browser) == []


def test_words_and_pages(browser, node):
    opened(browser, node)
    assert len(titles(browser)) == 20 and done(browser).startswith("31 documents match · 31 were searched")
    browser.click("#more-hits")
    browser.until("document.querySelectorAll('#results > li').length === 31")
    assert browser.evaluate("document.querySelector('#more-hits').hidden")
    assert sent(browser, "onslaught").startswith("1 document matches")


def test_texts_are_never_html(browser, node):
    opened(browser, node)
    sent(browser, "onslaught")
    assert "<img src=x" in titles(browser)[0]
    browser.click("#results .title")
    browser.until("document.querySelector('#results pre').innerText.includes('mail')")
    document = json.loads(browser.text("#results pre"))
    assert document["id"] == "id:mail:mail:g=ann:a:b/ç" and document["fields"]["size"] == 9900
    assert browser.evaluate("document.title") == "Millrace"


def test_filters_order_and_counts(browser, node):
    opened(browser, node)
    browser.click("#options summary")
    chosen(browser, "#order", "size desc")
    browser.click("#add-filter")
    chosen(browser, "[name=field]", "size")
    chosen(browser, "[name=comparison]", "<=")
    browser.click("[name=value]")
    browser.type("700")
    browser.press(*ENTER)
    browser.until("document.querySelectorAll('#results > li').length === 8")
    assert titles(browser)[0] == "Letter 7"
    counts = browser.evaluate("[...document.querySelectorAll('#facets button')].map((one) => one.innerText)")
    assert "inbox\n5" in counts and "archive\n3" in counts
    browser.evaluate("[...document.querySelectorAll('#facets button')].find((one) => one.innerText.startsWith('archive')).click()")
    browser.until("document.querySelectorAll('#results > li').length === 3")
    assert titles(browser) == ["Letter 6", "Letter 3", "Letter 0"]
    chosen(browser, "li:last-child [name=comparison]", "not")
    browser.click("#search .row button")
    browser.until("document.querySelectorAll('#results > li').length === 5")
    chosen(browser, "li:last-child [name=field]", "has_attachment")
    browser.evaluate("document.querySelector('li:last-child [name=value]').value = 'true'")
    browser.click("#search .row button")
    browser.until("document.querySelectorAll('#results > li').length === 4")


def test_numbers_keep_all_their_digits(browser, tmp_path):
    """Groups, values and filters whose numbers JavaScript would round to the same one."""
    numbers = [2**53, 2**53 + 1, 2**64 - 1]
    node = Node(tmp_path / "data", *free_ports(2), "--app", ROOT / "examples" / "mail")
    try:
        for number in numbers:
            path = f"{node.data}/document/v1/mail/mail/number/{number}/1"
            assert call("POST", path, {"fields": mail(1, subject=f"of {number}", date=min(number, 2**63 - 1))})[0] == 200
        opened(browser, node, group=None)
        for number in numbers:
            opened(browser, node, group=f"number {number}")
            browser.until(f"document.querySelector('#results .title')?.innerText === 'of {number}'")
            value = min(number, 2**63 - 1)
            shown = browser.evaluate("[...document.querySelectorAll('#results dd')].map((one) => one.innerText)")
            assert str(value) in shown, shown
            browser.click("#results .title")
            browser.until("document.querySelector('#results pre').innerText.includes('mail')")
            document = json.loads(browser.text("#results pre"))
            assert document["id"] == f"id:mail:mail:n={number}:1" and document["fields"]["date"] == value
        browser.click(f'[data-group="number {numbers[1]}"]')
        browser.click("#options summary")
        browser.click("#add-filter")
        chosen(browser, "[name=field]", "date")
        for value, found in {numbers[0]: 0, numbers[1]: 1}.items():
            browser.evaluate(f"document.querySelector('[name=value]').value = '{value}'; document.querySelector('#status').innerText = ''")
            browser.click("#search .row button")
            assert done(browser).startswith(f"{found} document")
    finally:
        node.stop()


def test_ids_that_a_browser_would_resolve(browser, tmp_path):
    """Parts of ids are parts of paths, and browsers take `.` and `..` out of those."""
    ids = ["id:mail:mail:g=ann:..", "id:mail:mail:g=ann:.", "id:mail:mail:g=..:1", "id:mail:mail:g=.:..", "id:mail:mail:n=7:..",
           "id:mail:mail::..", 'id:mail:mail:g=a"\\\'b:..', "id:mail:mail:g=ann:...", "id:mail:mail:g=ann:../x", "id:..:mail:g=ann:it's"]
    node = Node(tmp_path / "data", *free_ports(2), "--app", ROOT / "examples" / "mail")
    try:
        lines = "".join(json.dumps({"put": id, "fields": mail(1, subject=id)}) + "\n" for id in ids)
        request = urllib.request.Request(f"{node.data}/feed/v1", lines.encode(), {"content-type": "application/jsonl"}, method="POST")
        urllib.request.urlopen(request).read()
        opened(browser, node, group=None)
        groups = browser.evaluate("[...document.querySelectorAll('#groups button')].map((one) => one.dataset.group)")
        assert len(groups) == 5, groups
        seen = set()
        for at, _ in enumerate(groups):
            browser.evaluate("document.querySelector('#status').innerText = ''")
            browser.evaluate(f"document.querySelectorAll('#groups button')[{at}].click()")
            done(browser)
            for place, id in enumerate(titles(browser)):
                browser.evaluate(f"document.querySelectorAll('#results .title')[{place}].click()")
                shown = browser.until(f"document.querySelectorAll('#results pre')[{place}].innerText")
                if id.startswith("id:.."):
                    assert shown.startswith("A browser cannot ask") and shown.endswith("millrace get 'id:..:mail:g=ann:it'\\''s'"), shown
                else:
                    assert json.loads(shown)["id"] == id, shown
                seen.add(id)
        assert seen == set(ids) - {"id:mail:mail::.."}, "documents without a group are in none"
    finally:
        node.stop()


def test_json_is_read_and_written_without_a_loss(browser, node):
    opened(browser, node, group=None)
    texts = [
        '{"a":9007199254740993,"b":[-9223372036854775808,18446744073709551615,1,1.5,0],"c":"9007199254740993"}',
        r'["\u0000","\u00009007199254740993","\u0000\u0000x","a\\\"b: 12345678901234567890"]',
        r'{"12345678901234567890":12345678901234567890,"\u0000k":"\u0000"}',
        "12345678901234567890", '"\\u0000"', "[]",
    ]
    for text in texts:
        answer = browser.evaluate(f"import('/page/exact.js').then(({{ parseExactly, textOf }}) => textOf(parseExactly({json.dumps(text)})))")
        assert answer == text


def test_a_filter_that_is_not_a_number(browser, node):
    opened(browser, node)
    browser.click("#options summary")
    browser.click("#add-filter")
    chosen(browser, "[name=field]", "size")
    browser.click("[name=value]")
    browser.type("big")
    browser.press(*ENTER)
    assert browser.until("document.querySelector('#status.bad')?.innerText") == "“big” is not a number: size is of type int"


def test_the_query_can_be_run_again(browser, node):
    opened(browser, node)
    sent(browser, "river's")
    command = browser.text("#curl")
    answer = json.loads(subprocess.run(["sh", "-c", command + " -s"], capture_output=True, check=True).stdout)
    assert f"{answer['root']['fields']['totalCount']} documents match" in done(browser)
    assert browser.text("#yql").startswith("select * from mail where userInput(@words) | all(")
    browser.until("document.querySelectorAll('#trace meter').length >= 4")
    assert "matched" in browser.text("#trace")


def test_keys(browser, node):
    opened(browser, node)
    browser.evaluate("document.activeElement.blur()")
    browser.press("/", 191)
    assert browser.evaluate("document.activeElement.id") == "words"
    browser.press("ArrowDown", 40)
    browser.press("ArrowDown", 40)
    assert browser.evaluate("[...document.querySelectorAll('.title')].indexOf(document.activeElement)") == 1
    browser.press(*ENTER)
    browser.until("document.activeElement.getAttribute('aria-expanded') === 'true'")
    browser.press("ArrowUp", 38)
    assert browser.evaluate("[...document.querySelectorAll('.title')].indexOf(document.activeElement)") == 0
    assert browser.unnamed() == []


def test_application_and_node(browser, node):
    opened(browser, node, group=None)
    browser.click("#tab-application")
    text = browser.text("#application-view")
    assert "embedding\ttensor<bfloat16>(x[384])" in text and "has_attachment\tbool" in text
    assert browser.unnamed() == []
    browser.press("ArrowRight", 39)
    browser.until("document.querySelector('#clusters table') !== null")
    assert "Merges since the start\n" in browser.text("#figures")
    assert "Documents\n34" in browser.text("#figures") and "a single node" in browser.text("#clusters")
    assert not browser.evaluate("document.querySelector('#search-view').checkVisibility()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(browser, node, scheme):
    browser.size(360, 740)
    browser.scheme(scheme)
    opened(browser, node)
    for tab in ["search", "application", "node"]:
        browser.click(f"#tab-{tab}")
        width = browser.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"{tab} is {width} wide"
    assert not browser.evaluate("document.querySelector('#group-list').open"), "the hits come first"


def test_one_person(browser, node):
    opened(browser, node, "/person/bob/", group=None)
    assert browser.until("document.querySelectorAll('#results > li').length === 3")
    assert "ann" not in browser.text("#groups")


def test_signing_in(browser, tmp_path):
    data = tmp_path / "data"
    keys = {}
    for name, rights in {"root": ["--write", "--read", "--admin"], "ann": ["--read", "--group", "ann"]}.items():
        made = subprocess.run([binary(), "token", "create", name, *rights, "--data-dir", data], capture_output=True, check=True, text=True)
        keys[name] = made.stdout.split()[0]
    node = Node(data, *free_ports(2), "--app", ROOT / "examples" / "mail")
    try:
        for group in ["ann", "bob"]:
            request = urllib.request.Request(
                f"{node.data}/document/v1/mail/mail/group/{group}/1", json.dumps({"fields": mail(1)}).encode(),
                {"authorization": f"Bearer {keys['root']}", "content-type": "application/json"},
            )
            urllib.request.urlopen(request).read()
        for name, groups in {"root": 2, "ann": 1}.items():
            browser.open(node.data)
            browser.until("!document.querySelector('#sign-in').hidden && document.activeElement.id === 'token'")
            browser.type(keys[name])
            browser.press(*ENTER)
            browser.until(f"document.querySelectorAll('#groups li').length === {groups}")
            assert keys[name] not in browser.evaluate("document.documentElement.outerHTML")
            browser.click("#tab-node")
            if name == "ann":
                assert "may not see" in browser.until("document.querySelector('#clusters .bad')?.innerText")
            else:
                browser.until("document.querySelector('#clusters table') !== null")
            browser.click("#sign-out")
            browser.until("performance.getEntriesByType('navigation')[0].type === 'reload' && !document.querySelector('#sign-in').hidden")
        # Refusals are the subject of this test; the browser reports each.
        assert all("status of 401" in fault or "status of 403" in fault for fault in browser.faults), browser.faults
        browser.faults.clear()
    finally:
        node.stop()


def test_pictures(browser, node):
    if not PICTURES:
        pytest.skip("only `make page` writes them")
    corpus = subprocess.run([binary(), "corpus", "--mails", "3000", "--mailboxes", "20"], capture_output=True, check=True).stdout
    feed = [binary(), "feed", "-", "--url", node.data]
    subprocess.run(feed, input=corpus, capture_output=True, check=True)
    pictures = pathlib.Path(PICTURES)
    browser.size(1100, 760)
    opened(browser, node, group="anna.keller")
    sent(browser, "invoice for the workshop")
    browser.evaluate("scrollTo(0, 0)")
    browser.screenshot(pictures / "page-search.webp")
    browser.scheme("dark")
    browser.evaluate("document.querySelector('#query').scrollIntoView()")
    browser.screenshot(pictures / "page-query.webp")
    browser.scheme("light")
    browser.click("#tab-node")
    lines = corpus.splitlines(keepends=True)
    for at in range(40):
        # A feed that comes and goes, with queries beside it.
        subprocess.run(feed, input=b"".join(lines[: 200 + 400 * (at % 6)]), capture_output=True, check=True)
        for _ in range(at % 7 * 3):
            call("POST", f"{node.data}/search/", {"yql": "select * from mail where userQuery()", "query": "invoice", "streaming.groupname": "anna.keller"})
        time.sleep(0.5)
    browser.screenshot(pictures / "page-node.webp")
    browser.size(360, 640)
    opened(browser, node, group="anna.keller")
    sent(browser, "invoice")
    browser.evaluate("scrollTo(0, 0)")
    browser.screenshot(pictures / "page-phone.webp")


class Letters(http.server.BaseHTTPRequestHandler):
    """An embedding service: how often a text has an a, and an e."""

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        vectors = [{"index": at, "embedding": [text.count("a"), text.count("e")]} for at, text in enumerate(texts)]
        answer = json.dumps({"data": vectors}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


MEANING = {
    "services.xml": """<services version="1.0">
<container id="default" version="1.0"><search/><document-api/>
<component id="letters" type="openai-embedder"><model>m</model><dimensions>2</dimensions>
<endpoint>http://127.0.0.1:{}/v1/embeddings</endpoint></component></container>
<content id="c" version="1.0"><redundancy>1</redundancy>
<documents><document type="note" mode="streaming"/><document type="other" mode="streaming"/></documents></content>
</services>""",
    "schemas/note.sd": """schema note {
document note { field title type string { indexing: summary | index } }
field vector type tensor<float>(x[2]) { indexing: input title | embed letters | attribute }
fieldset default { fields: title }
rank-profile near { inputs { query(q) tensor<float>(x[2]) } first-phase { expression: closeness(field, vector) } }
}""",
    "schemas/other.sd": "schema other { document other { field title type string { indexing: summary | index } } }",
}


def test_meaning(browser, tmp_path):
    service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Letters)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    files = MEANING | {"services.xml": MEANING["services.xml"].format(service.server_port)}
    node = Node(tmp_path / "data", *free_ports(2), "--outbound-allow", "127.0.0.1")
    try:
        assert deploy(node, files)[0] == 200
        for number, title in enumerate(["an avalanche", "eleven trees", "a red car"]):
            status, answer = call("POST", f"{node.data}/document/v1/n/note/group/ann/{number}", {"fields": {"title": title}})
            assert status == 200, answer
        opened(browser, node)
        browser.click("#options summary")
        ways = "[...document.querySelectorAll('#by option')].map((one) => one.innerText)"
        assert browser.evaluate(ways) == ["words"], "a type without vectors is searched too"
        chosen(browser, "#schema", "note")
        assert browser.evaluate(ways) == ["words", "meaning of vector (near)", "words or meaning of vector (near)"]
        chosen(browser, "#by", browser.evaluate("document.querySelectorAll('#by option')[1].value"))
        assert sent(browser, "eeeee").startswith("3 documents match")
        assert titles(browser)[0] == "eleven trees"
    finally:
        node.stop()
        service.shutdown()
