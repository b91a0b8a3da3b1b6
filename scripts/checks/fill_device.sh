#!/usr/bin/env bash
# All that a lent device can give in M minutes, in one command: does it compute what a CPU does, then the runs of most value
# (robustfl-bench fill), beside which the rest of the check goes on, and with half an hour or more how fast it is.
#
#     scripts/checks/fill_device.sh FOLDER M [DEVICE] [NAME ...]
#
# DEVICE is cuda unless given; with cpu, small sizes rehearse it. NAMEs are those of fill, which takes all without any.
# JOBS processes make runs: 6 on a GPU, which they share by NVIDIA's MPS where that is installed, else 1. FOLDER has all
# that is finished, at any time: keep filled.csv.gz, a row of each run, elsewhere. PYTHON (python3) has the package; it
# and the data must be here, as nothing comes from a network.
set -euo pipefail

if [ $# -lt 2 ]; then
  sed -n 's/^#     /usage: /p' "$0" >&2
  exit 2
fi
check="$(cd "$(dirname "$0")" && pwd)/cuda_check.py"
python="${PYTHON:-python3}"
end=$((SECONDS + $("$python" -c 'import sys; print(int(60 * float(sys.argv[1])))' "$2")))
minutes="$2" device="${3:-cuda}"
mkdir -p "$1"
cd "$1"
shift $(($# < 3 ? 2 : 3))

ask() {  # SECTION...: of cuda_check.py, for a sixth of the time at most
  "$python" "$check" --device "$device" $([ "$device" != cpu ] || echo --tiny) --output answers \
    --seconds "$("$python" -c 'import sys; print(int(10 * float(sys.argv[1])))' "$minutes")" --sections "$@" \
    || echo "wrong, or not all asked: see $PWD/answers"
}

jobs="${JOBS:-$([ "$device" = cpu ] && echo 1 || echo 6)}"
if [ "$device" != cpu ] && command -v nvidia-cuda-mps-control > /dev/null; then
  export CUDA_MPS_PIPE_DIRECTORY="$PWD/mps" CUDA_MPS_LOG_DIRECTORY="$PWD/mps"
  mkdir -p mps
  nvidia-cuda-mps-control -d && trap 'echo quit | nvidia-cuda-mps-control' EXIT || unset CUDA_MPS_PIPE_DIRECTORY
fi
ask exactness models
if "$python" -c 'import sys; sys.exit(float(sys.argv[1]) < 30)' "$minutes"; then
  ask bounds operations rounds
fi
ask rules golden stacks pre_aggregations attacks local_updates server_optimizers > check.txt 2>&1 &
left="$("$python" -c 'import sys; print(max(1, int(sys.argv[1]) - int(sys.argv[2])) / 60)' "$end" "$SECONDS")"
"$python" -m robustfl_bench fill "$@" --minutes "$left" --device "$device" --jobs "$jobs" --output filled.csv.gz
wait
cat check.txt
