"""The Dockerfile uses paths, settings and ports that the package and the server have."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
BIN = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "target/debug/millrace")).absolute()


def instructions():
    text = (ROOT / "deploy/Dockerfile").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def arguments(name):
    return [rest for word, rest in instructions() if word == name]


def test_paths_are_those_of_the_package():
    packaged = (ROOT / "scripts/package").read_text()
    copied = [rest for rest in arguments("COPY") if rest.startswith("--from=package")]
    assert len(copied) == 2
    for rest in copied:
        source, target = rest.split()[1:]
        assert source == "/root/tree" + target
        assert f'"{target[1:]}"' in packaged, target


def test_every_variable_is_a_setting():
    text = subprocess.run([BIN, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"\[env: (MILLRACE_\w+)=", text))
    named = set(re.findall(r"(MILLRACE_\w+)=", " ".join(arguments("ENV"))))
    assert "MILLRACE_DATA_DIR" in named and named <= known, named - known
    for port in arguments("EXPOSE")[0].split():
        assert f"[default: {port}]" in text, port


def test_it_runs_as_a_user_of_its_own_who_owns_the_data():
    [user], [volume] = arguments("USER"), arguments("VOLUME")
    made = re.search(r"useradd .*--home-dir (\S+) .* (\S+)$", " ".join(arguments("RUN")))
    assert made and made.groups() == (volume, user)
    assert f"MILLRACE_DATA_DIR={volume}/" in " ".join(arguments("ENV"))
    names = [word for word, _ in instructions()]
    assert names.index("USER") < names.index("ENTRYPOINT")


def test_health_is_asked_where_the_server_answers():
    [check] = arguments("HEALTHCHECK")
    path = re.search(r"http://127\.0\.0\.1:19071([^\"]+)", check).group(1)
    assert f'"{path}", get(config_health)' in (ROOT / "crates/gateway/src/status_api.rs").read_text()
    assert "curl" in " ".join(arguments("RUN"))
