#!/usr/bin/env python3
"""A cluster on this machine: etcd and five nodes as processes. Mails are fed with two replicas; a node is killed, one is added, one retires.

Every second a line a node shows what it has and does, while searches go on. Everything lies in a temporary directory that goes at the end.
Usage: scripts/cluster_demo.py [--mails N] [--keep]
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path
from typing import Any

from processes import MILLRACE, ROOT, Etcd, Node, deploy, end, get, request_state, with_replicas


class Searches(threading.Thread):
    """Searches of random people at random nodes that are ready, all the time."""

    def __init__(self, nodes: list[Node], groups: list[str]) -> None:
        super().__init__(daemon=True)
        self.nodes, self.groups, self.took, self.failed, self.ends = nodes, groups, [], 0, False

    def run(self) -> None:
        while not self.ends:
            node = random.choice([node for node in self.nodes if node.runs()])
            question = urllib.parse.urlencode({
                "yql": "select * from mail where userQuery() limit 5", "query": "meeting", "timeout": "5s",
                "streaming.groupname": random.choice(self.groups)})
            began = time.monotonic()
            try:
                get(node.url(f"/search/?{question}"), 10)
                self.took.append(time.monotonic() - began)
            except OSError:
                self.failed += 1
            time.sleep(0.01)

    def figures(self) -> str:
        took, self.took, failed, self.failed = sorted(self.took), [], self.failed, 0
        if not took:
            return f"searches: none answered, {failed} failed"
        at = lambda share: took[min(len(took) - 1, int(len(took) * share))] * 1000
        return f"searches: {len(took)}, p50 {at(.5):.1f} ms, p99 {at(.99):.1f} ms, {failed} failed"


def copying_limit(directory: Path) -> float:
    """Bytes a second of a plain sender and receiver over loopback that writes and syncs: what moving is held against."""
    block, blocks = os.urandom(1 << 20), 256
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def send() -> None:
            with socket.create_connection(listener.getsockname()) as connection:
                for _ in range(blocks):
                    connection.sendall(block)
        sender = threading.Thread(target=send)
        began = time.monotonic()
        sender.start()
        connection, _ = listener.accept()
        with connection, open(directory / "limit", "wb") as file:
            while piece := connection.recv(1 << 20):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        took = time.monotonic() - began
        sender.join()
    (directory / "limit").unlink()
    return (blocks << 20) / took


class Show:
    def __init__(self, nodes: list[Node], searches: Searches | None, limit: float) -> None:
        self.nodes, self.searches, self.limit, self.lines = nodes, searches, limit, 0
        self.tty = sys.stdout.isatty()
        self.moved: dict[str, tuple[float, int]] = {}

    def rate(self, node: Node, figures: Any) -> float:
        """Bytes a second that a node has sent and received since the last frame."""
        now, moved = time.monotonic(), figures["pace"]["bytes"]
        then, before = self.moved.get(node.name, (now, moved))
        self.moved[node.name] = (now, moved)
        return max(0, moved - before) / (now - then) if now > then else 0.0

    def frame(self, title: str) -> bool:
        """Shows a line for each node. Returns true if all nodes are settled."""
        head = f"{'node':<6}{'state':<10}{'replicas':>9}{'owned':>7}{'to do':>7}{'MB':>8}{'MB/s':>7}"
        lines = [title, f"{head}   share of {self.limit / 1e6:.0f} MB/s, what a plain copy takes"]
        settled, replicas, size, left, speed = True, 0, 0, 0, 0.0
        for node in self.nodes:
            if node.process is None:
                continue
            figures = node.figures() if node.runs() else None
            if figures is None:
                lines.append(f"{node.name:<6}{'starting' if node.runs() else 'ended':<10}")
                continue
            rate = self.rate(node, figures)
            share = min(1.0, rate / self.limit)
            ideal, buckets = figures["ideal"], figures["buckets"]
            replicas, size, left = replicas + buckets["replicas"], size + figures["bytes"], left + ideal["distance"]
            # Both ends of a transfer count.
            speed += rate / 2
            settled &= node.is_settled(figures)
            state = "serves" if figures["confirmed"] else "waits"
            lines.append(f"{node.name:<6}{state:<10}{buckets['replicas']:>9}{buckets['owned']:>7}{ideal['distance']:>7}"
                         f"{figures['bytes'] / 1e6:>8.1f}{rate / 1e6:>7.1f}   {'#' * round(share * 30):<30} {share:>4.0%}")
        # To be made, filled or deleted: about as many bytes as other replicas have.
        due = left * size / max(1, replicas)
        eta = f"{due / speed:.0f} s" if speed > 0 else "not known"
        lines.append(f"left: {left} replicas, about {due / 1e6:.0f} MB; at {speed / 1e6:.1f} MB/s {eta}" if left else "left: nothing")
        lines.append(self.searches.figures() if self.searches else "")
        if self.tty and self.lines:
            print(f"\x1b[{self.lines}F\x1b[J", end="")
        print("\n".join(lines), flush=True)
        self.lines = len(lines) if self.tty else 0
        return settled

    def until_settled(self, title: str, at_least: float) -> None:
        """Shows until nothing has been left to do for some seconds; says how long it took."""
        began, calm = time.monotonic(), 0
        while calm < 4:
            time.sleep(1)
            passed = time.monotonic() - began
            calm = calm + 1 if self.frame(f"{title}, {passed:.0f} s") and passed > at_least else 0
            if passed > 600:
                sys.exit("it does not settle; the logs are in the temporary directory (--keep)")
        self.lines = 0
        print(f"-- {title}: settled after {time.monotonic() - began - 4:.0f} s\n")


def count(node: Node) -> int:
    question = urllib.parse.urlencode({
        "yql": "select * from mail where true limit 0", "streaming.selection": "true", "timeout": "20s"})
    answer = get(node.url(f"/search/?{question}"), 30)
    return answer["root"]["fields"]["totalCount"]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mails", type=int, default=20_000)
    arguments.add_argument("--keep", action="store_true", help="leave the directory with data and logs")
    asked = arguments.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="millrace-cluster-"))
    etcd, nodes = Etcd(directory / "etcd"), []
    try:
        etcd.start()
        nodes = [Node(directory, etcd.url, f"n{number}") for number in range(6)]
        for node in nodes[:5]:
            node.start()
        application = with_replicas(ROOT / "examples/mail", directory / "application", 2)
        refused = deploy(nodes[0], application)
        if refused:
            sys.exit(f"cannot deploy: {refused}")
        show = Show(nodes, None, copying_limit(directory))
        show.until_settled("five nodes", 3)

        corpus = directory / "corpus.jsonl"
        with open(corpus, "wb") as file:
            subprocess.run([MILLRACE, "corpus", "--mails", str(asked.mails)], stdout=file, check=True)
        subprocess.run([MILLRACE, "--url", nodes[0].url(), "feed", str(corpus)], check=True)
        fed = count(nodes[1])
        print(f"-- {fed} mails, two replicas of each\n")
        with open(corpus) as lines:
            ids = (json.loads(line)["put"] for line in lines)
            groups = sorted({id.split("g=")[1].split(":")[0] for id in ids if "g=" in id})
        show.searches = Searches(nodes[:5], groups)
        show.searches.start()

        nodes[4].process.send_signal(signal.SIGKILL)
        nodes[4].process.wait()
        show.until_settled("n4 is killed; it is down after a while, and its replicas are recreated", 20)
        print(f"-- {count(nodes[0])} of {fed} mails are found\n")
        nodes[5].start()
        while not nodes[5].is_ready():
            time.sleep(0.05)
        show.searches.nodes.append(nodes[5])
        show.until_settled("n5 comes, and gets its share", 5)
        retired = request_state(nodes[0], "retire", "n1")
        if retired.returncode != 0:
            sys.exit(f"cannot retire: {retired.stderr}")
        show.until_settled("n1 retires, and empties", 5)
        found = count(nodes[2])
        print(f"-- {found} of {fed} mails are found")
        show.searches.ends = True
        sys.exit(0 if found == fed else 1)
    finally:
        end([node.process for node in nodes] + [etcd.process])
        if asked.keep:
            print(f"left: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
