"""Clients of torture.py that query placed indexes, and operators who move the copies of these.

The clients write documents that are their own, and ask an index for them at any node, with `index.consistency=now`:
every write that was acknowledged before must be there. Operators begin and stop rebalances, move copies, and change
how new copies are made. In the end all copies must be in their places, and comparisons of them with the documents find
no difference.
"""

import collections
import http.client
import json
import random
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

from processes import Node, exchange
from remembered import Remembered

CLIENTS = 2
# Other clients have the numbers from 0 on.
FIRST = 5
GROUPS = 4
DOCUMENTS = 12
NAMES = ("by-client", "by-value")

DECLARATION = """<index-service placed='true' copies='2' slices='4'>
      <index name='by-client' document='note'><key field='client'/><key field='value' order='descending'/></index>
      <index name='by-value' document='note'><key field='value'/></index>
    </index-service>"""


def call(node: Node, port: int, method: str, path: str, body: Any = None, timeout: float = 10) -> tuple[int | None, Any]:
    """The status, or None where there was no answer, and the answer."""
    try:
        status, answer = exchange(node, port, method, path, json.dumps(body) if body is not None else None, timeout)
        return status, json.loads(answer or b"{}")
    except ConnectionRefusedError:
        return 503, {"message": "nothing listens"}
    except (OSError, http.client.HTTPException, ValueError) as error:
        return None, {"message": repr(error)}


class IndexClient(threading.Thread):
    """Writes documents that are its own, one operation after another, and finds them by indexes."""

    def __init__(self, number: int, nodes: list[Node], seed: int, log: Callable[..., None]) -> None:
        super().__init__(daemon=True)
        self.number, self.nodes, self.log = FIRST + number, nodes, log
        self.random = random.Random(f"{seed}/index/{number}")
        names = [(group, document) for group in range(GROUPS) for document in range(DOCUMENTS)]
        self.documents = {self.id(*name): (*name, Remembered()) for name in names}
        self.last, self.ends = 0, False
        self.counts: collections.Counter[str] = collections.Counter()
        self.reasons: collections.Counter[str] = collections.Counter()
        self.longest, self.answered = 0.0, time.monotonic()

    def id(self, group: int, document: int) -> str:
        return f"id:notes:note:g=i{self.number}g{group}:{document}"

    def run(self) -> None:
        while not self.ends:
            self.step()
            time.sleep(self.random.uniform(0.0, 0.1))

    def step(self) -> None:
        node, what = self.random.choice(self.nodes), self.random.random()
        if what < 0.35:
            return self.find(node)
        if what < 0.37:
            # Documents of a group are dropped together.
            group = self.random.randrange(GROUPS)
            path = f"/document/v1/notes/note/group/i{self.number}g{group}?selection=true&cluster=notes&timeout=8s"
            known = [known for of, _, known in self.documents.values() if of == group]
            return self.remember(known, None, call(node, node.port, "DELETE", path))
        group, document, known = self.random.choice(list(self.documents.values()))
        path = f"/document/v1/notes/note/group/i{self.number}g{group}/{document}?timeout=8s"
        if what < 0.5:
            return self.remember([known], None, call(node, node.port, "DELETE", path))
        self.last += 1
        value = self.last * 10 + self.number
        if what < 0.7:
            fields = {"value": {"assign": value}, "client": {"assign": self.number}}
            return self.remember([known], value, call(node, node.port, "PUT", path + "&create=true", {"fields": fields}))
        fields = {"value": value, "client": self.number, "text": f"note {value}"}
        self.remember([known], value, call(node, node.port, "POST", path, {"fields": fields}))

    def remember(self, documents: list[Remembered], value: int | None, outcome: tuple[int | None, Any]) -> None:
        """Remembers the answer to a write."""
        status, answer = outcome
        if status == 200:
            self.counts["writes"] += 1
            now = time.monotonic()
            self.longest, self.answered = max(self.longest, now - self.answered), now
            for known in documents:
                known.acknowledged(value)
        elif status in (429, 503):
            self.counts["refused"] += 1
            for known in documents:
                known.refused[value] = (status, answer.get("message"))
        else:
            self.counts[f"unknown ({status})"] += 1
            self.reasons[str(answer.get("message", answer))[:160]] += 1
            for known in documents:
                known.perhaps.add(value)

    def query(self, node: Node, index: str, condition: str) -> dict[str, int] | None:
        """Values of the documents that an index finds, by their ids; None where a node cannot say."""
        parameters = {
            "yql": f"select * from note where {condition}", "hits": 400, "timeout": "8s", "streaming.selection": "true",
            "index.use": index, "index.consistency": "now",
        }
        status, answer = call(node, node.port, "GET", "/search/?" + urllib.parse.urlencode(parameters), timeout=20)
        if status not in (200, None, 429, 503, 504):
            self.log(f"index client {self.number}: {status} {answer} to {condition} by {index}", wrong=True)
        root = answer.get("root", {})
        if status != 200 or root.get("errors") or not root.get("coverage", {}).get("full"):
            return None
        return {hit["id"]: hit["fields"]["value"] for hit in root.get("children", [])}

    def wrong_of_all(self, node: Node) -> list[str] | None:
        """Differences in all documents, as one index finds them; None where the node cannot say."""
        found = self.query(node, "by-client", f"client = {self.number}")
        if found is None:
            return None
        wrong = [f"{id} {found.get(id)}, which is {known.value}{known.why(found.get(id))}"
                 for id, (_, _, known) in self.documents.items() if not known.may_be(found.get(id))]
        return wrong + [f"{id}, which was never written" for id in found if id not in self.documents]

    def wrong_of_some(self, node: Node) -> list[str] | None:
        """Differences in some documents, as the other index finds them by present and former values."""
        chosen = self.random.sample(list(self.documents.items()), 8)
        asked = {value for _, (_, _, known) in chosen for value in {known.value, *known.perhaps, *known.refused}}
        asked = sorted(asked - {None})[-40:]
        if not asked:
            return []
        found = self.query(node, "by-value", f"value in ({', '.join(map(str, asked))})")
        if found is None:
            return None
        wrong = []
        for id, (_, _, known) in self.documents.items():
            seen = found.get(id)
            # Without a hit, it must be possible that the document has none of these values.
            is_right = known.may_be(seen) if seen is not None else known.value not in asked or bool(known.perhaps)
            if not is_right:
                wrong.append(f"{id} {seen}, which is {known.value}{known.why(seen)}, when asked for {len(asked)} values")
        return wrong

    def find(self, node: Node) -> None:
        """Compares the documents that an index finds with what was acknowledged."""
        wrong = self.wrong_of_all(node) if self.random.random() < 0.5 else self.wrong_of_some(node)
        self.counts["queries by an index without an answer" if wrong is None else "queries by an index"] += 1
        for line in wrong or []:
            # A node that is the only one left of those with a bucket may not know what it missed.
            self.log(f"index client {self.number} at {node.name}: {line}", stale=True)

    def complete(self) -> None:
        """Nothing: what is not acknowledged is not repeated."""

    def check(self, node: Node) -> Iterator[str]:
        """Yields the differences between the answers of a node and what was acknowledged."""
        for look in (self.wrong_of_all, self.wrong_of_some):
            for _ in range(60):
                wrong = look(node)
                if wrong is not None:
                    break
                time.sleep(0.5)
            else:
                yield f"{node.name} does not answer index client {self.number} ({look.__name__})"
            for line in wrong or []:
                yield f"{node.name} says by an index: {line}"


def operate(nodes: list[Node], chance: random.Random, log: Callable[..., None]) -> None:
    """An operator asks for something that concerns the copies, now and then."""
    node, (one, other), what = chance.choice(nodes), chance.sample(nodes, 2), chance.random()
    if what < 0.35:
        asked = ("POST", "/index/v1/rebalance", None)
    elif what < 0.5:
        asked = ("DELETE", "/index/v1/rebalance", None)
    elif what < 0.75:
        move = {"slice": chance.randrange(4), "from": one.name, "to": other.name}
        asked = ("POST", f"/index/v1/notes/{chance.choice(NAMES)}/move", move)
    elif what < 0.85:
        asked = ("PUT", "/index/v1/settings", {"method": chance.choice(["auto", "rebuild", "auto"])})
    elif what < 0.9:
        asked = ("POST", f"/index/v1/notes/{chance.choice(NAMES)}/rebuild", None)
    else:
        return
    status, answer = call(node, node.config, *asked, timeout=30)
    method, path, body = asked
    log(f"  {method} {path} {body or ''} at {node.name}: {status} {str(answer.get('message', ''))[:120]}",
        wrong=status not in (None, 200, 202, 409, 429, 503, 504))


def settle(nodes: list[Node], log: Callable[..., None], timeout: float = 240) -> None:
    """Waits until all copies are in their places."""
    began = time.monotonic()
    while not all(call(node, node.config, "GET", "/index/v1/rebalance")[1].get("balanced") for node in nodes):
        if time.monotonic() - began > timeout:
            log(f"copies of indexes do not come to rest: {call(nodes[0], nodes[0].config, 'GET', '/index/v1/rebalance')}", wrong=True)
            return
        time.sleep(1)
    log(f"  copies of indexes at rest after {time.monotonic() - began:.0f} s")


def finish(nodes: list[Node], log: Callable[..., None]) -> None:
    """Compares the copies with the documents, once all are in their places."""
    settle(nodes, log)
    for name in NAMES:
        for _ in range(20):
            status, answer = call(nodes[0], nodes[0].config, "POST", f"/index/v1/notes/{name}/verify", timeout=120)
            if status == 200 and answer.get("complete"):
                break
            time.sleep(2)
        else:
            log(f"index {name} is not compared: {status} {answer}", wrong=True)
            continue
        log(f"  index {name}: {answer['differences']} differences in {answer['documents']} documents: {answer['examples']}",
            wrong=answer["differences"] != 0)
    for node in nodes:
        for figure in repaired(node):
            log(f"{node.name} has repaired copies: {figure}", wrong=True)


def repaired(node: Node) -> list[str]:
    """Figures of a node that say that its own comparisons have found differences."""
    try:
        lines = exchange(node, node.port, "GET", "/prometheus/v1/values")[1].decode().splitlines()
    except (OSError, http.client.HTTPException) as error:
        return [repr(error)]
    return [line for line in lines if line.startswith("millrace_index_repaired") and float(line.split()[1]) != 0]
