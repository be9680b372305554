#!/bin/bash
# Starts a network whose machines are reached by ssh, and returns when it is up.
# Usage: start-by-ssh.sh FILE ADDRESS:PORT MACHINE...
# Each MACHINE is a host that ssh knows, and a machine of the topology FILE. `innet down` ends all.
set -eu
file=$1 address=$2
shift 2
name=$(basename "$file" .yaml)
token=$(mktemp -d)/token
trap 'rm -rf "$(dirname "$token")"' EXIT

innet up "$file" --listen "$address" --token-file "$token" --name "$name" --detach &
up=$!
until [ -s "$token" ]; do
    kill -0 "$up" # ends this script if `innet up` has ended with an error
    sleep 0.2
done
for machine in "$@"; do
    # The file goes through ssh's own channel, and only its owner can read it there.
    ssh "$machine" "umask 077; mkdir -p .innet; cat >.innet/$name.token" <"$token"
    ssh -n "$machine" "nohup innet node join $address --token-file .innet/$name.token \
        --name $machine >.innet/$name.log 2>&1 &"
done
wait "$up"
