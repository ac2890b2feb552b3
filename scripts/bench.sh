#!/usr/bin/env bash
# Measures a fresh cluster of three nodes on this machine, all on one disk.
#
#   BENCH_CLIENTS  how many clients ask at the same time, several runs ("1 16 64 256")
#   BENCH_WORKS     what they do ("cycle renew")
#   BENCH_DURATION  how long each run takes ("5s")
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/private.sh
source "$repo/scripts/private.sh"
need curl sed tail mktemp

build_if_missing
# Below the repository, because the usual folder for temporary files is often kept
# in memory. There a sync to disk costs nothing, and it is most of what we measure.
mkdir -p "$repo/data"
use_private_cluster "$repo/data"
case $(stat -f -c %T "$private_dir" 2>/dev/null || true) in
  tmpfs | ramfs) echo "NOTE: $repo is kept in memory, so these numbers are without the cost of a disk." ;;
esac

"$repo/scripts/cluster.sh" start 3
servers=
for node in n1 n2 n3; do
  address=$(url_of "$node")
  servers+=,${address#http://}
done
for work in ${BENCH_WORKS:-cycle renew}; do
  for clients in ${BENCH_CLIENTS:-1 16 64 256}; do
    printf '\n== %s, %s clients\n' "$work" "$clients"
    "$binary" bench --server "${servers#,}" --work "$work" --clients "$clients" --duration "${BENCH_DURATION:-5s}"
  done
done
