"""Clients of torture.py that write by Elasticsearch's `_bulk`, and remember the answer to each item.

They write to an index in `documents` mode, whose documents are changed again and again, and to three data streams in
`logs` mode:

- `logs-free`: events without ids. An acknowledged one must be there exactly once, one that was answered with 429 not
  at all, and one of unknown outcome once at most.
- `logs-keyed`: events with ids, each repeated until it is acknowledged or said to exist. Each must be there exactly
  once.
- `logs-kept`: events that are dropped with their partitions after a time. None may be missing before it is over,
  and all must be gone some time later.
"""

import collections
import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from processes import Node, exchange
from remembered import Remembered

CLIENTS = 2
INDEX = "torture-documents"
STREAMS = ("logs-free", "logs-keyed", "logs-kept")
DOCUMENTS = 40
# Documents of a partition: so few that many are closed. Those of events with ids are larger, since an id is looked
# for in the latest partitions only.
PARTITIONS = {"logs-free": 100, "logs-keyed": 1000, "logs-kept": 50}
RETENTION = 40
# Clocks of the nodes and of the clients are one; writes and searches take their time.
SLACK = 3
# A partition is closed after the retention at the latest, and dropped after it once more, by a task that runs
# every ten seconds and may be in flight at another node.
GONE = 2 * RETENTION + 60


def call(node: Node, method: str, path: str, body: Any = None, timeout: float = 80) -> tuple[int | None, Any]:
    """The status, or None where there was no answer, and the answer."""
    kind = "application/x-ndjson" if isinstance(body, list) else "application/json"
    text = "".join(json.dumps(line) + "\n" for line in body) if isinstance(body, list) else json.dumps(body) if body else None
    try:
        headers = {"Content-Type": kind} if text else {}
        status, answer = exchange(node, node.port, method, "/elastic" + path, text, timeout, headers)
        return status, json.loads(answer or b"{}")
    except ConnectionRefusedError:
        return 429, {"error": "nothing listens"}
    except (OSError, http.client.HTTPException, ValueError) as error:
        return None, {"error": repr(error)}


def prepare(node: Node) -> None:
    """Makes the templates of the streams, and the index."""
    requests: list[tuple[str, Any]] = [(f"/{INDEX}", {})]
    for stream in STREAMS:
        template = {"settings": {"index.mode": "logsdb", "index.partition.documents": PARTITIONS[stream]}}
        if stream == "logs-kept":
            template["lifecycle"] = {"data_retention": f"{RETENTION}s"}
        requests.append((f"/_index_template/{stream}", {"index_patterns": [stream], "data_stream": {}, "priority": 500, "template": template}))
    for path, body in requests:
        status, answer = None, None
        for _ in range(60):
            status, answer = call(node, "PUT", path, body)
            if status == 200 or "resource_already_exists" in json.dumps(answer):
                break
            time.sleep(1)
        else:
            raise RuntimeError(f"{path}: {status} {answer}")


def is_refused(status: int | None, error: Any) -> bool:
    """True if nothing was done: where the disk of one replica is full, others may have the write."""
    return status == 429 and "it is not known whether other replicas have the write" not in json.dumps(error)


class Event:
    """Knowledge about an event, which is written once, and never changed."""

    def __init__(self, stream: str, number: int, key: str | None = None) -> None:
        self.stream, self.number, self.key, self.id = stream, number, key, key
        # Time of the first attempt.
        self.began: float | None = None
        self.outcome, self.tries = "unknown", 0


class BulkClient(threading.Thread):
    """Writes bulks of documents and events that are its own, each at any node."""

    def __init__(self, number: int, nodes: list[Node], seed: int, log: Callable[..., None]) -> None:
        super().__init__(daemon=True)
        self.number, self.nodes, self.log = number, nodes, log
        self.random = random.Random(f"{seed}/bulk/{number}")
        self.documents = {f"c{number}d{document}": Remembered() for document in range(DOCUMENTS)}
        self.events: dict[str, dict[int, Event]] = {stream: {} for stream in STREAMS}
        # Events with ids that were not acknowledged yet.
        self.waiting: list[Event] = []
        self.last, self.ends = 0, False
        # The last logged error, which is not logged again at once.
        self.said: str | None = None
        self.counts: collections.Counter[str] = collections.Counter()
        self.reasons: collections.Counter[str] = collections.Counter()
        self.longest, self.answered = 0.0, time.monotonic()

    def next(self) -> int:
        """A number that no other document of any client has."""
        self.last += 1
        return self.last * 10 + self.number

    def run(self) -> None:
        while not self.ends:
            self.step()
            time.sleep(self.random.uniform(0.1, 0.5))

    def step(self) -> None:
        node, what = self.random.choice(self.nodes), self.random.random()
        if what < 0.25:
            self.change(node)
        elif what < 0.5:
            self.read(node)
        elif what < 0.6:
            # Events of several streams in one bulk.
            self.add(node, ["logs-free", "logs-kept"])
        else:
            self.add(node, [self.random.choice(STREAMS)])

    def bulk(self, node: Node, path: str, lines: list[Any], count: int) -> list[tuple[int | None, Any, Any]]:
        """The status of each item, its error and its answer."""
        status, answer = call(node, "POST", path, lines)
        if status == 200:
            self.longest = max(self.longest, time.monotonic() - self.answered)
            self.answered = time.monotonic()
            items = [next(iter(item.values())) for item in answer["items"]]
            if len(items) != count:
                self.log(f"bulk client {self.number}: {len(items)} answers to {count} items", wrong=True)
            return [(item["status"], item.get("error"), item) for item in items]
        return [(status, answer.get("error", answer), {})] * count

    def seen(self, status: int | None, error: Any) -> None:
        """Counts an answer that is neither a success nor a conflict. Shippers drop what gets another 4xx than 429."""
        self.counts["items refused" if status == 429 else f"items unknown ({status})"] += 1
        if status != 429:
            self.reasons[str(error)[:160]] += 1
        if status not in (None, 408, 429, 503) and (line := f"bulk client {self.number}: {status} {error}") != self.said:
            self.said = line
            self.log(line, wrong=True)

    def change(self, node: Node) -> None:
        """Sends a bulk of changes of documents, some of them more than once."""
        lines, operations = [], []
        for _ in range(self.random.randrange(1, 40)):
            id, what = self.random.choice(list(self.documents)), self.random.random()
            value = self.next()
            body = {"value": value, "client": self.number, "text": "word " * self.random.randrange(20)}
            if what < 0.5:
                lines += [{"index": {"_id": id}}, body]
            elif what < 0.65:
                lines += [{"create": {"_id": id}}, body]
            elif what < 0.8:
                lines += [{"update": {"_id": id}}, {"doc": body, "doc_as_upsert": True}]
            else:
                value = None
                lines += [{"delete": {"_id": id}}]
            operations.append((id, value))
        for (id, value), (status, error, _) in zip(operations, self.bulk(node, f"/{INDEX}/_bulk", lines, len(operations))):
            known = self.documents[id]
            if status in (200, 201) or (status == 404 and value is None):
                known.acknowledged(value)
                self.counts["items changed"] += 1
            elif status == 409:
                self.counts["items in conflict"] += 1
            elif is_refused(status, error):
                self.seen(status, error)
                known.refused[value] = (status, error)
            else:
                self.seen(status, error)
                known.perhaps.add(value)

    def add(self, node: Node, streams: list[str]) -> None:
        """Sends a bulk of new events; those with ids that were not acknowledged before are among them."""
        events = []
        if streams == ["logs-keyed"]:
            events, self.waiting = self.waiting[:100], self.waiting[100:]
        for _ in range(self.random.randrange(1, 40)):
            number, stream = self.next(), self.random.choice(streams)
            event = Event(stream, number, f"c{self.number}e{number}" if stream == "logs-keyed" else None)
            self.events[stream][number] = event
            events.append(event)
        self.send(node, events, f"r{self.random.randrange(5)}" if self.random.random() < 0.3 and streams == ["logs-free"] else None)

    def send(self, node: Node, events: list[Event], routing: str | None = None) -> None:
        lines, now = [], time.time()
        for event in events:
            event.began = now if event.began is None else event.began
            event.tries += 1
            action = {"_index": event.stream, **({"_id": event.key} if event.key else {})}
            if routing or (event.key and event.number % 3 == 0):
                action["routing"] = routing or f"r{event.number % 5}"
            lines += [{"create": action}, {"@timestamp": int(now * 1000), "number": event.number, "client": self.number,
                                           "text": "word " * self.random.randrange(20)}]
        for event, (status, error, item) in zip(events, self.bulk(node, "/_bulk", lines, len(events))):
            if status == 201 or (status == 409 and event.key and event.tries > 1):
                event.outcome, event.id = "acknowledged", item.get("_id", event.key)
                self.counts[f"items added ({status})"] += 1
                continue
            self.seen(status, error)
            if event.key:
                self.waiting.append(event)
            else:
                event.outcome = "refused" if is_refused(status, error) else "unknown"

    def read(self, node: Node) -> None:
        """Reads a document, or an event that is not to be dropped yet."""
        stream = self.random.choice(["logs-kept", "logs-free", None])
        if stream is None:
            id, known = self.random.choice(list(self.documents.items()))
            status, answer = call(node, "GET", f"/{INDEX}/_doc/{id}")
            seen = answer["_source"]["value"] if status == 200 else None
            if status in (200, 404) and "error" not in answer and not known.may_be(seen):
                self.log(f"bulk client {self.number} read {seen} of {id} at {node.name}, and it is {known.value}{known.why(seen)}", stale=True)
            self.counts["documents read"] += status in (200, 404)
            return
        latest = list(self.events[stream].values())[-300:]
        there = [event for event in latest if event.outcome == "acknowledged" and self.is_kept(stream, event, 10)]
        if there:
            event = self.random.choice(there)
            status, answer = call(node, "GET", f"/{stream}/_doc/{event.id}", timeout=30)
            if status == 404 and self.is_kept(stream, event):
                self.log(f"bulk client {self.number}: {event.id} of {stream} is missing at {node.name} after {time.time() - event.began:.1f} s: {answer}", stale=True)
            self.counts["events read"] += status == 200

    @staticmethod
    def is_kept(stream: str, event: Event, more: float = 0) -> bool:
        """True if an event may not be dropped yet, nor for some more seconds."""
        return stream != "logs-kept" or time.time() - event.began < RETENTION - SLACK - more

    def complete(self) -> None:
        """Repeats the events with ids until each is acknowledged."""
        for _ in range(60):
            if not self.waiting:
                return
            events, self.waiting = self.waiting[:100], self.waiting[100:]
            self.send(self.random.choice(self.nodes), events)
            if self.waiting:
                time.sleep(1)
        self.log(f"bulk client {self.number}: {len(self.waiting)} events with ids are never acknowledged", wrong=True)

    def check(self, node: Node) -> Iterator[str]:
        """Yields the differences between the answers of a node and what was acknowledged."""
        for id, known in self.documents.items():
            for _ in range(40):
                status, answer = call(node, "GET", f"/{INDEX}/_doc/{id}")
                if status in (200, 404) and "error" not in answer:
                    break
                time.sleep(0.5)
            seen = answer["_source"]["value"] if status == 200 else None
            if not known.may_be(seen):
                yield f"{node.name} says {seen} of {id}, which is {known.value}{known.why(seen)}"
        for stream, events in self.events.items():
            began, found = time.time(), self.all_of(node, stream)
            if found is None:
                yield f"{node.name} does not read {stream}"
                continue
            for number, event in events.items():
                count = found.pop(number, 0)
                age, at_end = began - event.began, self.is_kept(stream, event)
                if stream == "logs-kept":
                    count_min, count_max = int(event.outcome == "acknowledged" and at_end), int(age < GONE and event.outcome != "refused")
                else:
                    count_min, count_max = int(event.outcome == "acknowledged"), int(event.outcome != "refused")
                if not count_min <= count <= count_max:
                    # A document that is there and not found is another fault than one that is lost.
                    read = call(node, "GET", f"/{stream}/_doc/{event.id}")[0] if event.id else "nothing, without an id"
                    yield (f"{node.name} has {stream} {number} ({event.id}) {count} times, which was {event.outcome} "
                           f"{age:.0f} s before, sent {event.tries} times; a read of it answers {read}")
            for number in found:
                yield f"{node.name} has {stream} {number}, which was never written"

    def all_of(self, node: Node, stream: str) -> collections.Counter[int] | None:
        """Numbers of this client's events that a stream has, each with how often."""
        for _ in range(40):
            found = collections.Counter()
            query = {"size": 2000, "sort": ["_doc"], "query": {"term": {"client": self.number}}}
            status, answer = call(node, "POST", f"/{stream}/_search?scroll=2m", query)
            while status == 200 and answer["hits"]["hits"]:
                found.update(hit["_source"]["number"] for hit in answer["hits"]["hits"])
                status, answer = call(node, "POST", "/_search/scroll", {"scroll": "2m", "scroll_id": answer["_scroll_id"]})
            if status == 200:
                call(node, "DELETE", "/_search/scroll", {"scroll_id": [answer["_scroll_id"]]})
                return found
            if status == 404 and not self.events[stream]:
                return found
            time.sleep(1)
        return None
