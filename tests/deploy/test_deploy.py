"""What deploy/ says to systemd and Kubernetes is what the binary knows, and hangs together."""

import os
import pathlib
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BIN = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "target/debug/millrace")).absolute()


@pytest.fixture(scope="module")
def settings():
    """The settings that `serve` has: as variables, and as names in its file."""
    text = subprocess.run([BIN, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    variables = set(re.findall(r"\[env: (MILLRACE_\w+)=", text))
    names = set(re.findall(r"^\s+--([a-z-]+)", text, re.MULTILINE))
    assert "MILLRACE_DATA_DIR" in variables and "data-dir" in names
    return variables, names


@pytest.fixture(scope="module")
def objects():
    with open(DEPLOY / "kubernetes/millrace.yaml") as file:
        objects = [each for each in yaml.safe_load_all(file) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def settings_of(file):
    """The settings in a file of them, those that are commented out among them."""
    lines = [re.sub(r"^# (?=[a-z-]+ = )", "", line) for line in file.read_text().splitlines()]
    return tomllib.loads("\n".join(line for line in lines if not line.startswith("#")))


def test_every_setting_is_one(settings, objects):
    variables, names = settings
    for name in settings_of(DEPLOY / "systemd/millrace.toml"):
        assert name in names, name
    container = objects["StatefulSet", "millrace"]["spec"]["template"]["spec"]["containers"][0]
    for variable in container["env"]:
        if variable["name"].startswith("MILLRACE_"):
            assert variable["name"] in variables, variable


def test_services_set_no_settings(settings, objects):
    """Kubernetes gives pods a variable NAME_PORT for each service with an address of its own, unless it is told not to."""
    clashes = [name for kind, name in objects if kind == "Service" and f"{name.upper().replace('-', '_')}_PORT" in settings[0]]
    links = objects["StatefulSet", "millrace"]["spec"]["template"]["spec"].get("enableServiceLinks", True)
    assert not (clashes and links), clashes


def pod_specs():
    """The pods of all manifests, with the names of their files."""
    for path in sorted((DEPLOY / "kubernetes").rglob("*.yaml")):
        with open(path) as file:
            for each in filter(None, yaml.safe_load_all(file)):
                template = each.get("spec", {}).get("template") if isinstance(each.get("spec"), dict) else None
                if template:
                    yield path.name, template["spec"]


def test_pods_are_restricted():
    """The pod security level "restricted", whose rules the admission of Kubernetes holds each pod to."""
    pods = list(pod_specs())
    assert "millrace.yaml" in [name for name, _ in pods]
    for name, pod in pods:
        # A patch may not take back what the pod has.
        assert pod.get("securityContext", {}).get("runAsNonRoot", True) is True, name
        assert not any(pod.get(shared) for shared in ("hostNetwork", "hostPID", "hostIPC")), name
        for volume in pod.get("volumes", []):
            kinds = set(volume) - {"name"}
            assert kinds <= {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}, (name, volume)
        for container in pod.get("containers", []) + pod.get("initContainers", []):
            # The container's settings go before the pod's. A patch has only what it adds.
            if "image" not in container:
                assert "securityContext" not in container, name
                continue
            context = pod.get("securityContext", {}) | container.get("securityContext", {})
            assert context.get("runAsNonRoot") is True and context.get("runAsUser", 1) != 0, name
            assert context.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"), name
            assert context.get("allowPrivilegeEscalation") is False and not context.get("privileged"), name
            assert context.get("capabilities", {}).get("drop") == ["ALL"], name
            assert set(context["capabilities"].get("add", [])) <= {"NET_BIND_SERVICE"}, name
            assert context.get("readOnlyRootFilesystem") is True, name
            # `millrace doctor` writes temporary files.
            assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]], name
            assert not any(port.get("hostPort") for port in container.get("ports", [])), name


def test_the_image_is_set_in_one_place():
    kustomization = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())
    named = {image["name"] for image in kustomization["images"]}
    used = {container["image"] for _, pod in pod_specs() for container in pod["containers"] if "image" in container}
    assert used == named


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not here")
def test_kubectl_builds_the_manifests(tmp_path):
    """As `kubectl apply -k` does before it asks the cluster, with and without the file of keys."""
    built = tmp_path / "kubernetes"
    shutil.copytree(DEPLOY / "kubernetes", built, ignore=shutil.ignore_patterns("access.toml"))
    refused = subprocess.run(["kubectl", "kustomize", built], capture_output=True, text=True)
    assert refused.returncode != 0 and "access.toml" in refused.stderr, refused.stderr
    subprocess.run([BIN, "token", "create", "operator", "--read", "--access-file", built / "access.toml"], check=True, capture_output=True)
    answer = subprocess.run(["kubectl", "kustomize", built], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    objects = [each for each in yaml.safe_load_all(answer.stdout) if each]
    assert ("Secret", "millrace-access") in [(each["kind"], each["metadata"]["name"]) for each in objects]


def test_a_stop_leaves_time_to_drain(objects):
    pod = objects["StatefulSet", "millrace"]["spec"]["template"]["spec"]
    env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert pod["terminationGracePeriodSeconds"] > int(env["MILLRACE_DRAIN_S"]) + 5
    unit = (DEPLOY / "systemd/millrace.service").read_text()
    stop = int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE).group(1))
    assert stop > settings_of(DEPLOY / "systemd/millrace.toml")["drain-s"] + 5
    assert "KillSignal=SIGTERM" in unit


def test_ports_volumes_and_names_fit_together(objects):
    stateful = objects["StatefulSet", "millrace"]
    pod = stateful["spec"]["template"]
    container = pod["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    env = {each["name"]: each.get("value") for each in container["env"]}
    for name, variable in [("data", "MILLRACE_PORT"), ("config", "MILLRACE_CONFIG_PORT"), ("peer", "MILLRACE_PEER_PORT")]:
        assert int(env[variable]) == ports[name], name
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"]:
        get = container[probe]["httpGet"]
        assert get["port"] in ports and get["path"] == "/state/v1/health", probe
    assert container["readinessProbe"]["httpGet"]["port"] == "data"
    # Probes and services reach a pod by its address, at both ports.
    assert env["MILLRACE_LISTEN"] == env["MILLRACE_CONFIG_LISTEN"] == "0.0.0.0"
    hosts = env["MILLRACE_ALLOWED_HOSTS"].split(",")
    clients = {name for (kind, name), each in objects.items() if kind == "Service" and each["spec"].get("clusterIP") != "None"}
    assert {host.split(".")[0] for host in hosts} == clients == {"millrace", "millrace-config"}
    assert all(name in hosts and f"{name}.$(POD_NAMESPACE).svc.cluster.local" in hosts for name in clients)
    labels = pod["metadata"]["labels"]
    assert stateful["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for (kind, name), each in objects.items():
        if kind == "Service":
            assert each["spec"]["selector"].items() <= labels.items(), name
            assert all(port["targetPort"] in ports for port in each["spec"]["ports"]), name
        if kind == "PodDisruptionBudget":
            assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
    headless = objects["Service", stateful["spec"]["serviceName"]]["spec"]
    assert headless["clusterIP"] == "None" and headless["publishNotReadyAddresses"]
    assert env["MILLRACE_ADVERTISE"] == f"$(POD_NAME).{stateful['spec']['serviceName']}.$(POD_NAMESPACE).svc.cluster.local"
    # A variable can use those before it only.
    order = [each["name"] for each in container["env"]]
    for at, each in enumerate(container["env"]):
        assert set(re.findall(r"\$\((\w+)\)", each.get("value") or "")) <= set(order[:at]), each
    volumes = {claim["metadata"]["name"] for claim in stateful["spec"]["volumeClaimTemplates"]}
    assert env["MILLRACE_DATA_DIR"] in [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in volumes]
    volumes |= {volume["name"] for volume in pod["spec"]["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert volumes == set(mounts) and env["MILLRACE_DATA_DIR"] in mounts.values()


def test_ports_are_for_those_that_need_them(objects):
    """Every port has its rule: all pods of the namespace, labelled ones, and nodes."""
    pod = objects["StatefulSet", "millrace"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    policy = objects["NetworkPolicy", "millrace"]["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items() and policy["policyTypes"] == ["Ingress"]
    admitted = {}
    for rule in policy["ingress"]:
        # A rule without ports is for all of them, and one without sources for everybody.
        assert len(rule["from"]) == 1 and set(rule["from"][0]) == {"podSelector"}, rule
        for port in rule["ports"]:
            assert port["port"] not in admitted and port["protocol"] == "TCP", port
            admitted[port["port"]] = rule["from"][0]["podSelector"].get("matchLabels", {})
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert admitted == {"data": {}, "config": {"millrace-deployer": "true"}, "peer": {"app": "millrace"}}
    assert set(admitted) == ports and admitted["peer"].items() <= labels.items()
    assert not admitted["config"].items() <= labels.items(), "a node need not deploy to another"


def test_nothing_beyond_loopback_is_open_without_credentials(objects):
    """Pods have the file of keys, which they do not start without; no file of deploy/ turns that off by itself."""
    base = DEPLOY / "kubernetes"
    kustomization = yaml.safe_load((base / "kustomization.yaml").read_text())
    made = {each["name"]: each for each in kustomization["secretGenerator"]}
    for name, pod in pod_specs():
        for container in pod["containers"]:
            env = {each["name"]: each.get("value") for each in container["env"]}
            path = pathlib.PurePosixPath(env["MILLRACE_ACCESS_FILE"])
            mounted = {mount["mountPath"]: mount for mount in container["volumeMounts"]}[str(path.parent)]
            volume = {volume["name"]: volume for volume in pod["volumes"]}[mounted["name"]]
            secret = made[volume["secret"]["secretName"]]
            assert secret["files"] == [path.name] and mounted["readOnly"], name
            assert secret["options"] == {"disableNameSuffixHash": True}, "with a hash in its name, a new key would restart all pods"
    # Keys belong to one installation: a file of them is not ours to hand out.
    assert "/deploy/kubernetes/access.toml" in (ROOT / ".gitignore").read_text().splitlines()
    for path in filter(pathlib.Path.is_file, DEPLOY.rglob("*")):
        lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
        told = [line for line in lines if re.search("insecure", line, re.IGNORECASE)]
        # An image for development has it, which is built by its name alone.
        expected = ["ENV MILLRACE_INSECURE=true"] if path.name == "Dockerfile" else []
        assert told == expected, (path, told)


def test_certificates_between_nodes_fit_what_they_say(objects):
    """Names of hosts, files and secrets stand in several places."""
    with open(DEPLOY / "kubernetes/certificates.yaml") as file:
        made = {(each["kind"], each["metadata"]["name"]): each["spec"] for each in yaml.safe_load_all(file) if each}
    stateful = objects["StatefulSet", "millrace"]["spec"]
    pod = stateful["template"]["spec"]
    container = pod["containers"][0]
    env = {each["name"]: each.get("value") for each in container["env"]}
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == "nodes-certificate"]
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == "nodes-certificate"]
    for variable, file in [("AUTHORITY", "ca.crt"), ("CERTIFICATE", "tls.crt"), ("KEY", "tls.key")]:
        assert env[f"MILLRACE_PEER_TLS_{variable}"] == f"{mount['mountPath']}/{file}"
    nodes = made["Certificate", "millrace-nodes"]
    assert volume["secret"]["secretName"] == nodes["secretName"] == "millrace-nodes"
    name, host = env["MILLRACE_ADVERTISE"].split(".", 1)
    assert name == "$(POD_NAME)" and nodes["dnsNames"] == [f"*.{host}".replace("$(POD_NAMESPACE)", "default")]
    assert host.split(".")[0] == stateful["serviceName"]
    assert {"server auth", "client auth"} <= set(nodes["usages"])
    for each in [nodes, made["Certificate", "millrace-authority"]]:
        assert (each["issuerRef"]["kind"], each["issuerRef"]["name"]) in made
    assert made["Issuer", "millrace-authority"]["ca"]["secretName"] == made["Certificate", "millrace-authority"]["secretName"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not here")
def test_the_commands_of_the_documentation_make_what_the_pods_need(tmp_path, objects):
    """Certificates and key as docs/operations.md makes them, and a node that starts with them."""
    text = (ROOT / "docs/operations.md").read_text().split("**On Kubernetes**", 1)[1]
    commands = re.search(r"```sh\n(.*?)```", text, re.DOTALL).group(1)
    made = [line for line in re.sub(r"\\\n\s*", "", commands).splitlines() if line.startswith(("openssl", "millrace token", "printf"))]
    assert len(made) == 6, commands
    (tmp_path / "deploy/kubernetes").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/millrace").symlink_to(BIN)
    environment = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-ec", "\n".join(made)], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    pod = objects["StatefulSet", "millrace"]["spec"]["template"]["spec"]
    env = {each["name"]: each.get("value", "") for each in pod["containers"][0]["env"]}
    access = tmp_path / "deploy/kubernetes" / pathlib.PurePosixPath(env["MILLRACE_ACCESS_FILE"]).name
    assert access.is_file()
    # The name of a pod in the namespace `default`, as the certificate has it.
    host = env["MILLRACE_ADVERTISE"].replace("$(POD_NAME)", "millrace-0").replace("$(POD_NAMESPACE)", "default")
    verified = subprocess.run(["openssl", "verify", "-CAfile", "ca.crt", "-verify_hostname", host, "-purpose", "sslserver", "tls.crt"],
                              cwd=tmp_path, capture_output=True, text=True)
    assert verified.returncode == 0, verified.stderr
    # Without the files of the Secrets, it does not start.
    command = [BIN, "serve", "--port", "0", "--config-port", "0", "--listen", "0.0.0.0", "--config-listen", "0.0.0.0", "--data-dir", tmp_path / "data"]
    refused = subprocess.run([*command, "--access-file", tmp_path / "missing.toml"], capture_output=True, text=True, timeout=120)
    assert refused.returncode != 0 and "missing.toml" in refused.stderr, refused.stderr
    process = subprocess.Popen([*command, "--access-file", access], stderr=subprocess.PIPE, text=True)
    try:
        assert "documents and queries at" in process.stderr.readline()
    finally:
        process.terminate()
        assert process.wait(timeout=120) == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_the_unit_is_one(tmp_path):
    unit = (DEPLOY / "systemd/millrace.service").read_text().replace("/usr/local/bin/millrace", str(BIN))
    file = tmp_path / "millrace.service"
    file.write_text(unit)
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", file], capture_output=True, text=True)
    told = [line for line in verified.stderr.splitlines() if "millrace.service" in line]
    assert verified.returncode == 0 and not told, verified.stderr


def test_the_settings_start_a_node(tmp_path):
    """All but where the data lies, which only root may write to."""
    text = (DEPLOY / "systemd/millrace.toml").read_text()
    file = tmp_path / "millrace.toml"
    file.write_text(text.replace("/var/lib/millrace/data", str(tmp_path / "data")))
    command = [BIN, "serve", "--config", file, "--port", "0", "--config-port", "0", "--listen", "127.0.0.1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert "documents and queries at" in process.stderr.readline()
    finally:
        process.terminate()
        assert process.wait(timeout=120) == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_the_unit_is_confined():
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", DEPLOY / "systemd/millrace.service"]
    told = subprocess.run(command, capture_output=True, text=True).stdout
    exposure = float(re.search(r"exposure level for millrace.service: ([0-9.]+)", told).group(1))
    assert exposure <= 3.0, told
