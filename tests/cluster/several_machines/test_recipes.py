"""The recipes of docs/cluster-recipes.md, followed as they are written."""

from __future__ import annotations

import configparser
import json
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.cluster.several_machines.machines import Program, kill, launched, star
from tests.cluster.several_machines.recipe_site import RECIPES, Site, shown, site
from tests.docs.command_lines import CommandLine
from tests.docs.test_command_lines import parse

pytestmark = [pytest.mark.netns]
WORKERS = Path(__file__).parent / "workers"
SUMS = str(WORKERS / "sums.py")
ENGINE = Path(__file__).parents[2] / "kv" / "workers" / "attached_engine.py"
ATTACHES = "import innet; print('node', innet.attach())"
RACK = str(RECIPES / "rack.yaml")
TOPOLOGY = (RECIPES / "rack.yaml").read_text()


def digests(job: Program) -> list[str]:
    """What the ranks have summed, or trained."""
    found = [line for line in job.lines if "sum " in line or "parameters " in line]
    return [line.split()[-1] for line in found]


async def run_sums(there: Site, network: str) -> None:
    job = await there.innet("h0", "run", "--on", network, "--", "python", SUMS)
    assert len(digests(job)) == 2
    assert len(set(digests(job))) == 1


async def test_the_ssh_recipe_runs_a_job() -> None:
    (command,) = shown("start-by-ssh.sh rack.yaml")
    script, file, *arguments = shlex.split(command)
    assert (RECIPES / script).exists()
    assert file == Path(RACK).name
    async with site(3) as there:
        started = there.start("h0", str(RECIPES / script), RACK, *arguments)
        assert await started.ends() == 0, started.text
        await run_sums(there, "rack")
        await there.innet("h0", "down", "rack")
        log = there.start("h1", "sh", "-c", "tail -f -n +1 ~/.innet/rack.log")
        await log.says("left network rack")


@pytest.mark.cluster
async def test_the_script_for_ssh_ends_when_the_launch_is_refused() -> None:
    async with site(2) as there:
        script = str(RECIPES / "start-by-ssh.sh")
        refused = there.start("h0", script, RACK, "10.9.9.9:4711", "h1")
        assert await refused.ends() != 0
        assert "cannot listen on 10.9.9.9:4711" in refused.text


@pytest.mark.cluster
async def test_the_slurm_recipe_runs_a_job() -> None:
    (command,) = shown("sbatch ")
    _, script, _, *job_command = shlex.split(command)
    assert job_command[:1] == ["python"]
    async with site(3) as there:
        job = there.start(
            *("h0", str(RECIPES / script), RACK, "python", SUMS), SLURM_JOB_NODELIST="h[0-2]"
        )
        assert await job.ends() == 0, job.text
        assert len(digests(job)) == 2
        assert len(set(digests(job))) == 1
        assert list((there.folder / "shared" / ".innet").iterdir()) == []
        failed = there.start(
            "h0", str(RECIPES / script), RACK, "false", SLURM_JOB_NODELIST="h[0-2]"
        )
        assert await failed.ends() != 0
        assert there.lab.leftovers() == []


MANIFESTS = ("kubernetes.yaml", "pool.kubernetes.yaml")


def manifests(file: str) -> list[dict[str, Any]]:
    """The objects of a manifest for Kubernetes."""
    return list(YAML(typ="safe").load_all((RECIPES / file).read_text()))


@pytest.mark.parametrize("file", MANIFESTS)
def test_kubernetes_accepts_the_manifest(file: str) -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason="pip install 'innet[kubernetes]'")
    for document in manifests(file):
        schemas.validate(document, schemas.latest_version(), strict=True)


def named(kind: str, name: str, file: str = "kubernetes.yaml") -> dict[str, Any]:
    """An object of a manifest."""
    (found,) = (
        document
        for document in manifests(file)
        if (document["kind"], document["metadata"]["name"]) == (kind, name)
    )
    return found


@pytest.mark.parametrize("file", MANIFESTS)
def test_objects_of_the_manifest_refer_to_each_other(file: str) -> None:
    labels = {"app": "innet"}.items()
    assert labels == named("Service", "innet", file)["spec"]["selector"].items()
    for name in ("innet", "innet-launcher"):
        spec = named("StatefulSet", name, file)["spec"]
        metadata = spec["template"]["metadata"]
        assert metadata["labels"] == spec["selector"]["matchLabels"]
        assert labels <= metadata["labels"].items()
        assert spec["serviceName"] == "innet"
        pod = spec["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
        mounts = [mount for each in pod["containers"] for mount in each["volumeMounts"]]
        assert volumes == {mount["name"] for mount in mounts}


def container_of(owner: str, file: str = "kubernetes.yaml", number: int = 0) -> dict[str, Any]:
    """A container of the pods of a StatefulSet."""
    pod = named("StatefulSet", owner, file)["spec"]["template"]["spec"]
    found: dict[str, Any] = pod["containers"][number]
    return found


def in_folders(there: Site, container: dict[str, Any], pod: str, text: str) -> str:
    """A text with folders in place of a container's volumes."""
    for mount in container["volumeMounts"]:
        is_shared = mount.get("readOnly") or mount["name"] in ("topology", "pool")
        folder = there.folder / (mount["name"] if is_shared else f"{pod}-{mount['name']}")
        folder.mkdir(exist_ok=True, mode=0o700)
        text = text.replace(f"{mount['mountPath']}/", f"{folder}/")
    return text


def start_pod(
    there: Site, machine: str, owner: str, pod: str, file: str = "kubernetes.yaml"
) -> Program:
    """Run what the first container of a pod runs, with its environment; volumes are folders."""
    container = container_of(owner, file)
    argv = [
        in_folders(there, container, pod, argument)
        for argument in (*container["command"], *container["args"])
    ]
    fields = {"metadata.name": pod}
    variables = {
        entry["name"]: fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        for entry in container.get("env", [])
        if "valueFrom" in entry
    }
    return there.start(machine, *argv, **variables)


@pytest.mark.cluster
async def test_the_kubernetes_recipe_runs_a_job() -> None:
    names = {"h0": "innet-launcher-0.innet", "h1": "innet-0.innet", "h2": "innet-1.innet"}
    async with site(3, names) as there:
        topology = there.folder / "topology"
        topology.mkdir()
        for name, text in named("ConfigMap", "innet-topology")["data"].items():
            (topology / name).write_text(text)
        launcher = start_pod(there, "h0", "innet-launcher", "innet-launcher-0")
        await launcher.says("0 of 2")
        # The volume of a Secret is readable for the group of the pod.
        (there.folder / "token").mkdir()
        secret = there.folder / "token" / "token"
        shutil.copy(there.folder / "innet-launcher-0-state" / "token", secret)
        secret.chmod(0o644)
        pods = [start_pod(there, f"h{n + 1}", "innet", f"innet-{n}") for n in range(2)]
        await launcher.says("is up")
        await run_sums(there, "cluster")
        assert pods[0].process is not None
        kill(pods[0])
        await pods[0].ends()
        again = start_pod(there, "h1", "innet", "innet-0")
        await again.says("joined network cluster as machine innet-0")
        await launcher.says("machine innet-0 is back")
        await run_sums(there, "cluster")


@pytest.mark.cluster
async def test_a_pool_of_kubernetes_serves_the_engines_of_its_pods() -> None:
    file = "pool.kubernetes.yaml"
    names = {"h0": "innet-launcher-0.innet", "h1": "innet-0.innet", "h2": "innet-1.innet"}
    async with site(3, names) as there:
        container = container_of("innet-launcher", file)
        text = named("ConfigMap", "innet-pool", file)["data"]["pool.yaml"]
        text = in_folders(there, container, "innet-launcher-0", text).replace("16GiB", "16MiB")
        (there.folder / "pool" / "pool.yaml").write_text(text)
        (there.folder / "tenants" / "acme.secret").write_text("at least sixteen bytes")
        launcher = start_pod(there, "h0", "innet-launcher", "innet-launcher-0", file)
        await launcher.says("0 of 2")
        (there.folder / "token").mkdir(exist_ok=True)
        shutil.copy(there.folder / "innet-launcher-0-state" / "token", there.folder / "token")
        for number in range(2):
            start_pod(there, f"h{number + 1}", "innet", f"innet-{number}", file)
        await launcher.says("the blocks of acme on 2 hosts")
        engine = {entry["name"]: entry for entry in container_of("innet", file, 1)["env"]}
        options = json.loads(engine["KV_TRANSFER"]["value"])["kv_connector_extra_config"]
        options["secret"] = str(there.folder / "innet-launcher-0-run" / "acme.secret")
        command = f"echo put 7 | python {ENGINE} '{json.dumps(options)}'"
        for machine, asked in (("h1", command), ("h2", command.replace("put", "get"))):
            program = there.start(machine, "sh", "-c", asked)
            assert await program.ends() == 0, program.text
        assert program.lines == ["at innet-1.1", "found"]
        (leave,) = container_of("innet", file)["lifecycle"]["preStop"]["exec"]["command"][2:]
        left = there.start("h1", "sh", "-c", leave, POD_NAME="innet-0")
        assert await left.ends() == 0, left.text
        again = there.start("h2", "sh", "-c", command.replace("put", "get"))
        assert await again.ends() == 0, again.text
        assert again.lines == ["at innet-1.1", "found"]


def unit(there: Site, machine: str) -> list[str]:
    """What systemd runs for a machine, with this machine's paths."""
    text = (RECIPES / "innet-node@.service").read_text().replace("%i", machine)
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    service = parser["Service"]
    state = f"/var/lib/{service['StateDirectory']}"
    command = service["ExecStart"].replace("${LAUNCHER}", "10.0.0.1:4711")
    command = command.replace(state, str(there.folder / "state"))
    return shlex.split(command.replace("/opt/innet/bin/innet", "innet"))


@pytest.mark.cluster
async def test_a_machine_of_systemd_joins_successive_networks() -> None:
    async with site(3) as there:
        (there.folder / "state").mkdir()
        for network in ("first", "second"):
            up = there.lab.up(star(["h1"]), name=network)
            await up.says("0 of")
            shutil.copy(there.folder / "token", there.folder / "state" / "token")
            agent = there.start("h1", *unit(there, "h1"))
            await up.says("is up")
            await there.innet("h0", "down", network)
            assert await agent.ends() == 0, agent.text
            await up.ends()


UNITS = ("innet-node@.service", "innet-pool.service")


def shell_lines(file: str) -> list[str]:
    """What a recipe runs, as commands of a shell."""
    if file in UNITS:
        lines = (RECIPES / file).read_text().splitlines()
        starts = [line for line in lines if line.startswith("ExecStart=")]
        return [line.partition("=")[2].replace("/opt/innet/bin/", "") for line in starts]
    lines = []
    for owner in ("innet", "innet-launcher"):
        container = container_of(owner, file)
        hook = container.get("lifecycle", {}).get("preStop", {"exec": {"command": []}})["exec"]
        for argv in ([*container["command"], *container["args"]], hook["command"]):
            lines.append(argv[2] if argv[:2] == ["sh", "-c"] else shlex.join(argv))
    return lines


@pytest.mark.parametrize("file", [*MANIFESTS, *UNITS])
def test_commands_of_recipes_have_options_that_exist(file: str) -> None:
    commands = [
        words[words.index("innet") :]
        for line in shell_lines(file)
        for words in CommandLine(file, 0, line, in_block=True).simple_commands()
        if "innet" in words
    ]
    assert commands
    for words in commands:
        parse(words)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_the_unit(tmp_path: Path, unit: str) -> None:
    text = (RECIPES / unit).read_text()
    path = tmp_path / unit
    path.write_text(text.replace("/opt/innet/bin/innet", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert path.name not in done.stderr, done.stderr
    ends_at_sigterm = f"SuccessExitStatus={128 + signal.SIGTERM}"
    assert ends_at_sigterm in text.splitlines(), "systemctl stop would leave a failed unit"


@pytest.mark.cluster
async def test_the_torchrun_recipe_trains_on_all_machines() -> None:
    pytest.importorskip("torch")
    commands = [shlex.split(line) for line in shown(" torchrun ")]
    assert len(commands) == 2
    async with site(3) as there:
        await launched(there.lab, TOPOLOGY, ["h1", "h2"], name="rack")
        ranks = [
            there.start(
                f"h{number}",
                "env",
                *(str(WORKERS / "ddp.py") if word == "train.py" else word for word in command),
            )
            for number, command in enumerate(commands, 1)
        ]
        for rank in ranks:
            assert await rank.ends() == 0, rank.text
        assert len({digest for rank in ranks for digest in digests(rank)}) == 1
        status = await there.innet("h0", "status", "rack")
        assert "h2" in status.text


@pytest.mark.cluster
async def test_a_rank_gets_a_worker_on_its_own_machine() -> None:
    async with site(3) as there:
        await launched(there.lab, star(["h1", "h2"], h2="workers: 2"), ["h1", "h2"], name="rack")
        environment = {"INNET_NETWORK": "rack", "MASTER_ADDR": "h2", "MASTER_PORT": "1"}
        ranks = [
            there.start("h2", "python", "-c", ATTACHES, RANK=str(n), WORLD_SIZE="2", **environment)
            for n in range(2)
        ]
        for number, rank in enumerate(ranks):
            assert await rank.ends() == 0, rank.text
            assert f"node h2.{number}" in rank.text
        elsewhere = there.start(
            "h1", "python", "-c", ATTACHES, INNET_NETWORK="rack", INNET_HOST="h2"
        )
        assert await elsewhere.ends() != 0
        assert "rank 0 runs on machine h1 and asks for h2" in elsewhere.text
        launcher = there.start("h0", "python", "-c", ATTACHES, INNET_NETWORK="rack")
        assert await launcher.ends() != 0
        assert "0 of 0 of machine launcher are free" in launcher.text
