#!/usr/bin/env bash
# kv-adapters-venv.sh VENV: the virtual environment in which adapters meet their engines.
#
# It stands on .venv, whose packages it sees, and has the engines beside, without CUDA: LMCache and
# SGLang as wheels, vLLM as its unpacked source distribution, of which Python's part is imported.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
vllm=0.33.0

.venv/bin/python -m venv --clear "$venv"
python=$venv/bin/python
pip=("$python" -m pip --quiet --disable-pip-version-check)
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
below=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf 'import site; site.addsitedir(%s)\n' "'$below'" >"$site/innet-below.pth"

echo "Installing LMCache, SGLang and what they and vLLM import (1 to 2 min, once)"
"${pip[@]}" install --no-deps --requirement tests/kv_adapters/requirements.txt

echo "Unpacking vLLM $vllm"
# pip asks the distribution for its version, and the distribution, what it shall be built for.
VLLM_VERSION_OVERRIDE=$vllm VLLM_TARGET_DEVICE=empty "${pip[@]}" download --no-deps \
    --no-binary vllm --no-build-isolation --dest "$venv/download" "vllm==$vllm"
mkdir "$venv/vllm"
tar -xzf "$venv/download/vllm-$vllm.tar.gz" -C "$venv/vllm" --strip-components=1 \
    "vllm-$vllm/vllm" "vllm-$vllm/PKG-INFO"
rm -r "$venv/download"
echo "$PWD/$venv/vllm" >"$site/vllm.pth"
