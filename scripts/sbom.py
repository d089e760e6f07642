#!/usr/bin/env python3
"""Writes what a package of Millrace is made of, as CycloneDX 1.5 (JSON), to standard output.

The crates are those that a build of the server for Linux takes, with the versions and checksums of Cargo.lock; ONNX Runtime lies
beside the binary. Two runs over the same sources write the same bytes.
"""

import json
import pathlib
import re
import subprocess
import tomllib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = "millrace-server"
TARGET = "x86_64-unknown-linux-gnu"


def reached(nodes: dict[str, Any], start: str) -> set[str]:
    """The packages that a build of `start` needs, without those of tests alone."""
    found, waiting = set(), [start]
    while waiting:
        package = waiting.pop()
        if package in found:
            continue
        found.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] in (None, "build") for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return found


def component(package: dict[str, Any], checksums: dict[tuple[str, str], str | None]) -> dict[str, Any]:
    name, version = package["name"], package["version"]
    made = {"type": "library", "bom-ref": f"{name}@{version}", "name": name, "version": version}
    if package["license"]:
        # The form before SPDX, which some crates still have: MIT/Apache-2.0.
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["source"]:
        made["purl"] = f"pkg:cargo/{name}@{version}"
    if checksum := checksums.get((name, version)):
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made


def runtime() -> dict[str, Any]:
    """ONNX Runtime, a library that packages have for models."""
    text = (ROOT / "scripts/requirements/onnxruntime.txt").read_text()
    version = re.search(r"^onnxruntime==(\S+)", text, re.MULTILINE).group(1)
    return {
        "type": "library", "bom-ref": f"onnxruntime@{version}", "name": "onnxruntime", "version": version,
        "licenses": [{"expression": "MIT"}], "purl": f"pkg:pypi/onnxruntime@{version}",
    }


def main() -> None:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(each["name"], each["version"]): each.get("checksum") for each in lock["package"]}
    [start] = [id for id, package in packages.items() if package["name"] == BINARY]
    needed = reached(nodes, start)
    refs = {id: f"{packages[id]['name']}@{packages[id]['version']}" for id in needed}
    components = [component(packages[id], checksums) for id in needed if id != start] + [runtime()]
    depends = [
        {"ref": refs[id], "dependsOn": sorted({refs[each["pkg"]] for each in nodes[id]["deps"] if each["pkg"] in needed})}
        for id in needed
    ]
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**component(packages[start], checksums), "type": "application"}},
        "components": sorted(components, key=lambda each: each["bom-ref"]),
        "dependencies": sorted(depends, key=lambda each: each["ref"]),
    }
    print(json.dumps(bom, indent=1))


if __name__ == "__main__":
    main()
