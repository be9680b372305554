#!/bin/bash
#SBATCH --job-name=innet
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --time=01:00:00
# Usage: sbatch slurm.sh FILE COMMAND...
# Runs COMMAND on a network of the job's nodes. The first one launches it; node n is machine h<n>
# of the topology FILE.
set -eu
SLURM_FIRST_NODE=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export SLURM_FIRST_NODE
exec srun --kill-on-bad-exit=1 bash -eu -c '
file=$1 name=job-$SLURM_JOB_ID address=$SLURM_FIRST_NODE:4711
folder=$HOME/.innet/$name # on a file system that all nodes share
shift
if [ "$SLURM_NODEID" = 0 ]; then
    mkdir -p -m 700 "$folder"
    trap "innet down $name; rm -rf $folder" EXIT
    innet up "$file" --listen "$address" --token-file "$folder/token" --name "$name" --detach
    innet run --on "$name" -- "$@"
else
    until [ -s "$folder/token" ]; do sleep 1; done
    innet node join "$address" --token-file "$folder/token" --name "h$SLURM_NODEID"
fi
' machine "$@"
