"""What scripts/package makes of a binary installs, and runs."""

import gzip
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import platform
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BIN = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "target/debug/millrace")).absolute()

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ["dpkg-deb", "objcopy", "objdump"])), reason="dpkg-deb or binutils are not here"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("package") / "out"
    subprocess.run([ROOT / "scripts/onnxruntime"], check=True)
    command = [ROOT / "scripts/package", "--binary", BIN, "--out", out, "--no-sbom", "--fast"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return out


@pytest.fixture(scope="module")
def tree(made, tmp_path_factory):
    """The package, unpacked."""
    [deb] = made.glob("*.deb")
    tree = tmp_path_factory.mktemp("root")
    subprocess.run(["dpkg-deb", "-x", deb, tree], check=True)
    subprocess.run(["dpkg-deb", "-e", deb, tree / "DEBIAN"], check=True)
    return tree


def test_the_binary_runs_without_its_symbols(tree):
    binary = tree / "usr/bin/millrace"
    assert subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.startswith("millrace ")
    sections = subprocess.run(["objdump", "-h", binary], capture_output=True, text=True, check=True).stdout
    assert ".debug_line" not in sections and ".gnu_debuglink" in sections
    assert binary.stat().st_size < BIN.stat().st_size


def test_models_have_their_library(tree):
    library = tree / "usr/lib/millrace/libonnxruntime.so"
    assert library.read_bytes()[:4] == b"\x7fELF"
    control = (tree / "DEBIAN/control").read_text()
    assert "libstdc++6" in re.search(r"^Depends: (.*)$", control, re.MULTILINE).group(1)
    notices = gzip.decompress((tree / "usr/share/doc/millrace/onnxruntime-licences.gz").read_bytes())
    assert b"MIT License" in notices and len(notices) > 100_000


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the page has the names for this processor")
def test_the_page_names_the_files_and_their_places(made, tree):
    page = (ROOT / "docs/installing.md").read_text()
    version = subprocess.run([BIN, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    named = {name.replace("VERSION", version) for name in re.findall(r"^\| `((?:millrace[_-]|SHA)[\w.-]+)` \|", page, re.MULTILINE)}
    files = {path.name for path in made.iterdir()}
    # The list of components takes cargo.
    assert files < named and {pathlib.Path(name).suffix for name in named - files} == {".json"}
    places = re.findall(r"^\| `(/(?:usr|etc)/[^`]*)` \|", page, re.MULTILINE)
    assert len(places) > 4
    for place in places:
        assert (tree / place.lstrip("/")).exists(), place


@pytest.fixture
def script():
    """scripts/package as a module."""
    loader = importlib.machinery.SourceFileLoader("package", str(ROOT / "scripts/package"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("package", loader))
    loader.exec_module(module)
    return module


def test_a_release_is_small_and_runs_on_the_oldest_system():
    release = pathlib.Path(os.environ.get("MILLRACE_RELEASE_BIN", ROOT / "target/release/millrace"))
    if not release.is_file():
        pytest.skip("no release was built (make build)")
    result = subprocess.run([ROOT / "scripts/package", "--binary", release, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_binary_that_is_no_release_is_refused_with_the_cure(tree, script):
    binary = tree / "usr/bin/millrace"
    newest = script.check_c_library(binary)
    assert (2, 17) <= newest <= script.GLIBC_MAX
    script.GLIBC_MAX = (newest[0], newest[1] - 1)
    with pytest.raises(SystemExit, match=rf"\(GLIBC_{newest[0]}\.{newest[1]}\).*build it there"):
        script.check_c_library(binary)
    script.SIZE_MAX = binary.stat().st_size
    assert script.check_size(binary) == script.SIZE_MAX
    script.SIZE_MAX -= 1
    with pytest.raises(SystemExit, match=rf"has {script.SIZE_MAX + 1:,} bytes .*at most {script.SIZE_MAX:,}.*opt-level"):
        script.check_size(binary)


def test_checksums_are_of_all_files(made):
    lines = dict(reversed(line.split("  ")) for line in (made / "SHA256SUMS").read_text().splitlines())
    files = {path.name: path for path in made.iterdir() if path.name != "SHA256SUMS"}
    assert set(lines) == set(files) and {path.suffix for path in files.values()} == {".deb", ".gz", ".debug"}
    for name, path in files.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == lines[name], name


def test_the_unit_starts_what_is_installed(tree):
    unit = (tree / "usr/lib/systemd/system/millrace.service").read_text()
    program, *words = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE).group(1).split()
    for path in [program, words[-1]]:
        assert (tree / path.lstrip("/")).is_file(), path
    page = re.search(r"^Documentation=file://(.*)$", unit, re.MULTILINE).group(1)
    assert (tree / page.lstrip("/")).is_file(), page
    assert "DynamicUser" not in unit and "User=millrace" in unit
    assert words[-1] in (tree / "DEBIAN/conffiles").read_text().splitlines()
    assert "useradd --system" in (tree / "DEBIAN/postinst").read_text()
    for name in ["postinst", "prerm", "postrm"]:
        subprocess.run(["sh", "-n", tree / "DEBIAN" / name], check=True)


def test_every_command_has_its_page(tree):
    pages = {path.name.removesuffix(".1.gz"): gzip.decompress(path.read_bytes()).decode() for path in tree.glob("usr/share/man/man1/*")}
    text = subprocess.run([BIN, "--help"], capture_output=True, text=True, check=True).stdout
    commands = text[: text.index("\nOptions:")]
    names = set(re.findall(r"^  ([a-z]+)  ", commands, re.MULTILINE)) - {"help"}
    assert len(names) > 15 and {"millrace", *(f"millrace-{name}" for name in names)} <= set(pages)
    assert "millrace-token-create" in pages, "commands below commands"
    assert "\\-\\-data\\-dir" in pages["millrace-serve"]
    for name, page in pages.items():
        for heading in [".TH", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"]:
            assert heading in page, (name, heading)


def test_completions_are_there(tree):
    for path in [
        "usr/share/bash-completion/completions/millrace",
        "usr/share/zsh/vendor-completions/_millrace",
        "usr/share/fish/vendor_completions.d/millrace.fish",
    ]:
        assert "millrace" in (tree / path).read_text(), path
