#!/usr/bin/env bash
# All that a lent device can give in M minutes, in one command: does it compute what a CPU does, how fast is it, and then,
# in what is left of the time, the runs of most value (robustfl-bench fill).
#
#     scripts/checks/fill_device.sh FOLDER M [DEVICE] [NAME ...]
#
# DEVICE is cuda unless given; with cpu, small sizes rehearse it. NAMEs are those of fill, which takes all without any.
# Check and benchmark take a sixth of the time each at most, and go on where an earlier call stopped. FOLDER has all that
# is finished, at any time: keep filled.csv.gz, a row of each run, elsewhere. PYTHON (python3) has the package; it and
# the data must be here, as nothing comes from a network.
set -euo pipefail

if [ $# -lt 2 ]; then
  sed -n 's/^#     /usage: /p' "$0" >&2
  exit 2
fi
began=$SECONDS
check="$(cd "$(dirname "$0")" && pwd)/cuda_check.py"
python="${PYTHON:-python3}"
limit="$("$python" -c 'import sys; print(int(60 * float(sys.argv[1])))' "$2")"
device="${3:-cuda}"
mkdir -p "$1"
cd "$1"
shift $(($# < 3 ? 2 : 3))

ask() {  # SECTION...: of cuda_check.py
  "$python" "$check" check --device "$device" $([ "$device" != cpu ] || echo --tiny) --output answers \
    --seconds $((limit / 6)) --sections "$@" || echo "wrong, or not all asked: see $PWD/answers"
}

ask exactness models rules golden stacks
ask bounds operations rounds
left="$("$python" -c 'import sys; print(max(1, int(sys.argv[1]) - int(sys.argv[2])) / 60)' "$limit" $((SECONDS - began)))"
exec "$python" -m robustfl_bench fill "$@" --minutes "$left" --device "$device" --output filled.csv.gz
