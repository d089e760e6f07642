#!/usr/bin/env python3
"""Real processes under torture: etcd and some nodes, each in a network of its own, while clients write, read and remember every answer.

Nodes are killed, frozen, cut off (both ways, one way, from etcd), flap, run out of disk, and are restarted one by one and all at once: by chance, from
a seed. In between all is mended, and the cluster must come to rest. In the end every acknowledged write must be there, nothing that was
removed be back, and each node alone must say the same; so must the copies of placed indexes.

Usage: scripts/torture.py [MINUTES] [--nodes N] [--seed N] [--keep]
Needs the rights to make network namespaces; where there are none it says so, and ends.
"""

import argparse
import collections
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import torture_bulks
import torture_indexes
from processes import Etcd, Node, Place, deploy, end, exchange, request_state
from remembered import Remembered

REPLICAS = 2
CLIENTS = 4
GROUPS = 6
DOCUMENTS = 12
DISK = "400m"
RESERVE = 32 << 20

SERVICES = f"""<services version='1.0'>
  <container id='default' version='1.0'><search/><document-api/></container>
  <content id='notes' version='1.0'>
    <min-redundancy>{REPLICAS}</min-redundancy>
    <documents><document type='note' mode='streaming'/></documents>
    {torture_indexes.DECLARATION}
  </content>
</services>"""
SCHEMA = """schema note {
  document note {
    field value type long { indexing: summary | attribute }
    field client type long { indexing: summary | attribute }
    field text type string { indexing: summary | index }
  }
}"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True)


# Status of an answer, None where there was none, and the answer.
WriteOutcome: TypeAlias = tuple[int | None, Any]


class Networks:
    """A network namespace for each process, on one bridge. All of it lies in namespaces of this script, and ends with it."""

    def __init__(self, names: list[str]) -> None:
        self.address = {name: f"10.88.0.{10 + number}" for number, name in enumerate(names)}
        for command in ("mount -t tmpfs none /run", "mkdir -p /run/netns", "ip link set lo up",
                        "ip link add bridge0 type bridge", "ip address add 10.88.0.1/24 dev bridge0", "ip link set bridge0 up"):
            self.must(command)
        for name, address in self.address.items():
            for command in (f"ip netns add {name}", f"ip link add to-{name} type veth peer name eth0 netns {name}",
                            f"ip link set to-{name} master bridge0 up", f"ip -n {name} link set lo up",
                            f"ip -n {name} address add {address}/24 dev eth0", f"ip -n {name} link set eth0 up"):
                self.must(command)

    @staticmethod
    def must(command: str) -> None:
        done = run(*command.split())
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stderr.strip()}")

    def place(self, name: str) -> Place:
        return Place(self.address[name], ["ip", "netns", "exec", name])

    def link(self, name: str, state: str) -> None:
        run("ip", "link", "set", f"to-{name}", state)

    def block(self, source: str, target: str) -> None:
        """Nothing goes from one to the other; the other way it does."""
        run("ip", "-n", source, "route", "replace", "blackhole", f"{self.address[target]}/32")

    def mend(self) -> None:
        for name in self.address:
            self.link(name, "up")
            run("ip", "-n", name, "route", "flush", "type", "blackhole")


class Client(threading.Thread):
    """Writes and reads documents that are its own, one operation after another, each at any node."""

    def __init__(self, number: int, nodes: list[Node], seed: int, log: Callable[..., None]) -> None:
        super().__init__(daemon=True)
        self.number, self.nodes, self.log = number, nodes, log
        self.random = random.Random(f"{seed}/{number}")
        self.documents = {(group, document): Remembered() for group in range(GROUPS) for document in range(DOCUMENTS)}
        self.last, self.ends = 0, False
        self.counts: collections.Counter[str] = collections.Counter()
        # Messages of answers with unknown outcome.
        self.reasons: collections.Counter[str] = collections.Counter()
        self.longest, self.answered = 0.0, time.monotonic()

    def path(self, group: int, document: int | None = None) -> str:
        path = f"/document/v1/notes/note/group/c{self.number}g{group}"
        return f"{path}?selection=true&cluster=notes&timeout=8s" if document is None else f"{path}/{document}?timeout=8s"

    def feed(self, node: Node) -> None:
        """Sends a stream of writes of several documents, some of them more than once."""
        operations, lines = [], []
        for _ in range(self.random.randrange(2, 60)):
            group, document = self.random.randrange(GROUPS), self.random.randrange(DOCUMENTS)
            id = f"id:notes:note:g=c{self.number}g{group}:{document}"
            self.last += 1
            value = self.last * 10 + self.number
            what = self.random.random()
            if what < 0.7:
                lines.append({"put": id, "fields": {"value": value, "text": f"note {value} " + "word " * self.random.randrange(40)}})
            elif what < 0.8:
                lines.append({"update": id, "create": True, "fields": {"value": {"assign": value}}})
            else:
                value = None
                lines.append({"remove": id})
            operations.append((self.documents[group, document], value))
        status, answer = self.call(node, "POST", "/feed/v1?timeout=8s", lines, timeout=20, parse=lambda text: [json.loads(line) for line in text.splitlines()])
        if status != 200:
            for known, value in operations:
                self.write([known], value, (status, answer))
            return
        failed = {line["operation"]: line for line in answer if "operation" in line}
        through = max((line["through"] for line in answer if "through" in line), default=0)
        end = next((line for line in answer if "complete" in line), {})
        for number, (known, value) in enumerate(operations, 1):
            if number in failed:
                self.write([known], value, (failed[number]["status"], failed[number]))
            elif number <= through:
                self.write([known], value, (200, {}))
                self.counts["writes in streams"] += 1
            else:
                # Behind the last progress, anything may have happened.
                self.write([known], value, (None, {"message": f"a stream ended: {end.get('message', 'without totals')}"}))

    def call(
            self, node: Node, method: str, path: str, body: Any = None, timeout: float = 10, parse: Callable[[bytes], Any] = json.loads
    ) -> WriteOutcome:
        """The status, or None where there was no answer, and the answer."""
        try:
            status, answer = exchange(node, node.port, method, path, json.dumps(body) if body else None, timeout)
            text = answer or b"{}"
            return status, parse(text) if status == 200 else json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return None, {"message": repr(error)}

    def read(self, node: Node, group: int, document: int) -> Any:
        """The value that a node says a document has; False where it cannot say."""
        status, answer = self.call(node, "GET", self.path(group, document))
        if status == 404:
            return None
        return answer["fields"]["value"] if status == 200 else False

    def run(self) -> None:
        while not self.ends:
            self.step()
            time.sleep(self.random.uniform(0.0, 0.05))

    def step(self) -> None:
        group, document = self.random.randrange(GROUPS), self.random.randrange(DOCUMENTS)
        known = self.documents[group, document]
        node = self.random.choice(self.nodes)
        what = self.random.random()
        if what < 0.3:
            seen = self.read(node, group, document)
            self.counts["reads" if seen is not False else "reads without an answer"] += 1
            # Whoever is the only one left of a bucket's nodes may not know what it missed.
            if seen is not False and not known.may_be(seen):
                self.log(f"client {self.number} read {seen} of {group}/{document} at {node.name}, and it is {known.value}"
                         + known.why(seen), stale=True)
            return
        if what < 0.36:
            return self.feed(node)
        self.last += 1
        value = self.last * 10 + self.number
        if what < 0.75:
            body = {"fields": {"value": value, "text": f"note {value} " + "word " * self.random.randrange(40)}}
            self.write([known], value, self.call(node, "POST", self.path(group, document), body))
        elif what < 0.88:
            body = {"fields": {"value": {"assign": value}}}
            outcome = self.call(node, "PUT", self.path(group, document) + "&create=true", body)
            self.write([known], value, outcome)
        elif what < 0.99:
            self.write([known], None, self.call(node, "DELETE", self.path(group, document)))
        else:
            whole = [self.documents[group, other] for other in range(DOCUMENTS)]
            self.write(whole, None, self.call(node, "DELETE", self.path(group)))

    def write(self, documents: list[Remembered], value: int | None, outcome: WriteOutcome) -> None:
        status, answer = outcome
        now = time.monotonic()
        if status == 200:
            self.counts["writes"] += 1
            self.longest = max(self.longest, now - self.answered)
            self.answered = now
            for known in documents:
                known.acknowledged(value)
        elif status in (429, 503) or "ConnectionRefused" in answer.get("message", ""):
            self.counts["refused"] += 1
            for known in documents:
                known.refused[value] = (status, answer.get("message"))
        else:
            self.counts[f"unknown ({status})"] += 1
            self.reasons[str(answer.get("message", answer))[:160]] += 1
            for known in documents:
                known.perhaps.add(value)

    def complete(self) -> None:
        """Nothing: what is not acknowledged is not repeated."""

    def check(self, node: Node) -> Iterator[str]:
        """Yields the differences between the answers of a node and what was acknowledged."""
        for (group, document), known in self.documents.items():
            for _ in range(40):
                seen = self.read(node, group, document)
                if seen is not False:
                    break
                time.sleep(0.5)
            if not known.may_be(seen):
                yield f"{node.name} says {seen} of c{self.number}g{group}/{document}, which is {known.value}{known.why(seen)}"


class Torture:
    def __init__(self, arguments: argparse.Namespace, directory: Path) -> None:
        self.random, self.seed, self.directory = random.Random(arguments.seed), arguments.seed, directory
        self.operators = random.Random(f"{self.seed}/operators")
        names = [f"n{number}" for number in range(arguments.nodes)]
        self.networks = Networks(["etcd", *names])
        self.etcd = Etcd(directory / "etcd", self.networks.place("etcd"))
        self.nodes = []
        for name in names:
            (directory / name).mkdir()
            # A small disk of its own, so that it can be filled.
            Networks.must(f"mount -t tmpfs -o size={DISK} none {directory / name}")
            self.nodes.append(Node(directory, self.etcd.url, name, self.networks.place(name)))
        os.environ["MILLRACE_DISK_RESERVE"] = str(RESERVE)
        self.began, self.wrong, self.gentle = time.monotonic(), [], True
        self.clients = [Client(number, self.nodes, self.seed, self.log) for number in range(CLIENTS)]
        bulks = range(torture_bulks.CLIENTS)
        self.clients += [torture_bulks.BulkClient(number, self.nodes, self.seed, self.log) for number in bulks]
        indexes = range(torture_indexes.CLIENTS)
        self.clients += [torture_indexes.IndexClient(number, self.nodes, self.seed, self.log) for number in indexes]

    def log(self, line: str, stale: bool = False, wrong: bool = False) -> None:
        note = " (nodes that had it are away)" if stale and not self.gentle else ""
        print(f"{time.monotonic() - self.began:7.1f} {line}{note}", flush=True)
        if wrong or (stale and self.gentle):
            self.wrong.append(line)

    # What happens to nodes. Each leaves it to `mend` to put things right.

    def kill(self, node: Node) -> None:
        node.process.kill()
        node.process.wait()
        self.sleep(0, 12)
        node.start()

    def freeze(self, node: Node) -> None:
        node.process.send_signal(signal.SIGSTOP)
        self.sleep(1, 14)
        node.process.send_signal(signal.SIGCONT)

    def unplug(self, node: Node) -> None:
        self.networks.link(node.name, "down")
        self.sleep(1, 14)

    def flap(self, node: Node) -> None:
        for _ in range(self.random.randrange(3, 9)):
            self.networks.link(node.name, "down")
            self.sleep(0.1, 1.5)
            self.networks.link(node.name, "up")
            self.sleep(0.1, 1.5)

    def lose_etcd(self, node: Node) -> None:
        self.networks.block(node.name, "etcd")
        self.networks.block("etcd", node.name)
        self.sleep(3, 14)

    def fill_disk(self, node: Node) -> None:
        ballast = node.directory / "ballast"
        try:
            with open(ballast, "wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
        except OSError:
            pass
        self.sleep(2, 10)
        if self.random.random() < 0.3:
            node.process.kill()
            node.process.wait()
            node.start()
            self.sleep(1, 3)
        ballast.unlink()

    def one_way(self, node: Node) -> None:
        deaf = self.random.sample([other for other in self.nodes if other is not node], 2)
        for other in deaf:
            self.networks.block(*((node.name, other.name) if self.random.random() < 0.5 else (other.name, node.name)))
        self.sleep(2, 14)

    def stop(self, node: Node) -> None:
        node.process.send_signal(signal.SIGTERM)
        try:
            node.process.wait(40)
        except subprocess.TimeoutExpired:
            self.log(f"{node.name} does not stop", wrong=True)
            node.process.kill()
            node.process.wait()
        node.start()

    # What happens to many.

    def split(self) -> None:
        names = [node.name for node in self.nodes] + ["etcd"]
        self.random.shuffle(names)
        cut = self.random.randrange(1, len(names))
        bridge = names[-1] if self.random.random() < 0.3 and cut < len(names) - 1 else None
        for one in names[:cut]:
            for other in names[cut:]:
                if other != bridge:
                    self.networks.block(one, other)
                    self.networks.block(other, one)
        self.log(f"  {names[:cut]} cut off from {names[cut:]}" + (f", both see {bridge}" if bridge else ""))
        self.sleep(4, 20)

    def restart_all(self) -> None:
        end([node.process for node in self.nodes])
        for node in self.nodes:
            node.start()
        self.sleep(2, 8)

    def restart_each(self) -> None:
        for node in self.nodes:
            self.stop(node)
            self.sleep(2, 5)

    def restart_etcd(self) -> None:
        self.etcd.process.kill()
        self.etcd.process.wait()
        self.sleep(1, 25)
        self.etcd.start()

    def several(self) -> None:
        victims = self.random.sample(self.nodes, self.random.randrange(2, len(self.nodes)))
        threads = []
        for node in victims:
            what = self.random.choice([self.kill, self.freeze, self.unplug, self.lose_etcd, self.flap])
            self.log(f"  {what.__name__} {node.name}")
            threads.append(threading.Thread(target=what, args=(node,)))
        for thread in threads:
            thread.start()
            self.sleep(0, 4)
        for thread in threads:
            thread.join()

    def retire(self) -> None:
        node, other = self.random.sample(self.nodes, 2)
        self.log(f"  {node.name}")
        request_state(other, "retire", node.name)
        self.sleep(2, 10)
        victim = self.random.choice(self.nodes)
        self.kill(victim)
        request_state(other, "up", node.name)

    def sleep(self, shortest: float, longest: float) -> None:
        time.sleep(self.random.uniform(shortest, longest))

    def turn(self) -> None:
        if self.operators.random() < 0.6:
            torture_indexes.operate(self.nodes, self.operators, self.log)
        if self.random.random() < 0.55:
            # One node at a time: then there is always another with all that it has.
            what = self.random.choice([self.kill, self.freeze, self.unplug, self.flap, self.lose_etcd, self.fill_disk,
                                       self.one_way, self.stop])
            node = self.random.choice(self.nodes)
            self.log(f"{what.__name__} {node.name}")
            what(node)
        else:
            self.gentle = False
            what = self.random.choice([self.split, self.split, self.restart_all, self.restart_each, self.restart_etcd,
                                       self.several, self.several, self.retire])
            self.log(what.__name__)
            what()
        self.mend()

    def mend(self) -> None:
        self.networks.mend()
        for node in self.nodes:
            if not node.runs():
                self.log(f"{node.name} has ended by itself: {node.process.returncode}", wrong=node.process.returncode not in (0, -9))
                node.start()
            node.process.send_signal(signal.SIGCONT)
        if self.etcd.process.poll() is not None:
            self.etcd.start()
        took = self.settle()
        self.log(f"  at rest after {took:.0f} s")
        self.gentle = True

    def settle(self, timeout: float = 150) -> float:
        """Waits until the cluster has come to rest. Returns the seconds that it took."""
        began, calm = time.monotonic(), 0
        while calm < 2:
            time.sleep(1)
            figures = [node.figures() for node in self.nodes]
            versions = {one and one["version"] for one in figures}
            settled = all(one and node.is_settled(one) for node, one in zip(self.nodes, figures))
            calm = calm + 1 if settled and len(versions) == 1 else 0
            if time.monotonic() - began > timeout:
                shown = [one and {key: one[key] for key in ("version", "confirmed", "ideal")} for one in figures]
                self.log(f"it does not come to rest: {shown}", wrong=True)
                break
        return time.monotonic() - began

    def start(self) -> None:
        self.etcd.start()
        for node in self.nodes:
            node.start()
        application = self.directory / "application"
        (application / "schemas").mkdir(parents=True)
        (application / "services.xml").write_text(SERVICES)
        (application / "schemas/note.sd").write_text(SCHEMA)
        refused = deploy(self.nodes[0], application)
        if refused:
            sys.exit(f"cannot deploy: {refused}")
        self.settle()
        torture_bulks.prepare(self.nodes[0])
        torture_indexes.settle(self.nodes, self.log)
        for client in self.clients:
            client.start()

    def finish(self) -> None:
        """Ends the clients, and compares: at all nodes, then with each node out in turn, so that each replica is read alone."""
        for client in self.clients:
            client.ends = True
        for client in self.clients:
            client.join()
        self.settle()
        for client in self.clients:
            client.complete()
        torture_indexes.finish(self.nodes, self.log)
        for node in self.nodes:
            self.compare(node, "all serve")
        for out, other in zip(self.nodes, self.nodes[1:] + self.nodes[:1]):
            done = request_state(other, "maintenance", out.name)
            if done.returncode != 0:
                self.log(f"{out.name} cannot be taken out: {done.stderr}", wrong=True)
            time.sleep(3)
            self.compare(other, f"without {out.name}")
            request_state(other, "up", out.name)
            self.settle()

    def compare(self, node: Node, when: str) -> None:
        for client in self.clients:
            for wrong in client.check(node):
                self.log(f"{when}: {wrong}", wrong=True)

    def report(self) -> bool:
        """Prints the counts and what is wrong. Returns true if nothing is."""
        total = sum((client.counts for client in self.clients), collections.Counter())
        print(", ".join(f"{count} {what}" for what, count in sorted(total.items())))
        reasons = sum((client.reasons for client in self.clients), collections.Counter())
        for reason, count in reasons.most_common(12):
            print(f"  unknown {count} times: {reason}")
        print(f"the longest time without an acknowledged write of a client: {max(client.longest for client in self.clients):.1f} s")
        print(f"seed {self.seed}: " + ("well" if not self.wrong else f"{len(self.wrong)} wrong"))
        for line in self.wrong:
            print(f"  {line}")
        return not self.wrong


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("minutes", type=float, nargs="?", default=1.0)
    arguments.add_argument("--nodes", type=int, default=4)
    arguments.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    arguments.add_argument("--keep", action="store_true", help="leave the directory with logs")
    asked = arguments.parse_args()
    if os.environ.get("MILLRACE_TORTURE") != "inside":
        may = run("unshare", "--net", "--mount", "true")
        if may.returncode != 0 or shutil.which("etcd") is None or shutil.which("ip") is None:
            print(f"passed over: needs etcd, ip, and the rights for network namespaces (try as root); {may.stderr.strip()}")
            return
        os.environ["MILLRACE_TORTURE"] = "inside"
        os.execvp("unshare", ["unshare", "--net", "--mount", "--kill-child", "--pid", "--fork", "--mount-proc",
                              sys.executable, *sys.argv])
    directory = Path(tempfile.mkdtemp(prefix="millrace-torture-"))
    torture, well = None, False
    try:
        torture = Torture(asked, directory)
        print(f"seed {asked.seed}, {asked.nodes} nodes, in {directory}", flush=True)
        torture.start()
        until = time.monotonic() + asked.minutes * 60
        while time.monotonic() < until and len(torture.wrong) < 20:
            torture.turn()
        torture.finish()
        well = torture.report()
    finally:
        if torture:
            end([node.process for node in torture.nodes] + [torture.etcd.process])
            for node in torture.nodes:
                run("umount", str(node.directory))
        if asked.keep or not well:
            print(f"left: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
