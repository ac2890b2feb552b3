# shellcheck shell=bash
# A cluster for one script alone, that disappears with it. Sourced after lib.sh.

# use_private_cluster FOLDER: makes a new folder in FOLDER, picks free ports and
# points cluster.sh at them. However the script ends, the nodes are stopped and the
# folder is removed.
use_private_cluster() {
  private_dir=$(mktemp -d "${1%/}/leasehold.XXXXXX")
  trap end_private_cluster EXIT
  # Without these, bash would die of the signal and skip the trap on EXIT.
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  LEASEHOLD_CLUSTER_DIR=$private_dir/cluster
  LEASEHOLD_BASE_PORT=$(free_base_port 3)
  export LEASEHOLD_CLUSTER_DIR LEASEHOLD_BASE_PORT
}

end_private_cluster() {
  local code=$?
  trap '' HUP INT TERM # a second Ctrl-C must not interrupt the clean-up
  if ((code && code < 128)) && [[ -d $LEASEHOLD_CLUSTER_DIR ]]; then
    printf '\nThe last lines in the logs of the nodes:\n' >&2
    tail -n 5 "$LEASEHOLD_CLUSTER_DIR"/n?.log >&2 2>/dev/null || true
  fi
  # shellcheck disable=SC2154 # repo comes from lib.sh
  "$repo/scripts/cluster.sh" stop >/dev/null 2>&1 || true
  rm -rf -- "${private_dir:?}"
  exit "$code"
}

url_of() { echo "http://127.0.0.1:$((LEASEHOLD_BASE_PORT + ${1#n}))"; }

# private_leader: the node that leads, by its own word; fails if there is none. Good
# enough where nodes are killed but never cut off from each other.
private_leader() {
  local node
  for node in n1 n2 n3; do
    [[ $(field "$(ask "$(url_of "$node")/v1/status" || true)" role || true) == leader ]] || continue
    echo "$node"
    return
  done
  return 1
}

# wait_for_leader SECONDS: prints the node that leads and is ready to serve.
wait_for_leader() {
  local deadline node
  deadline=$(($(now_ms) + $1 * 1000))
  while (($(now_ms) < deadline)); do
    if node=$(private_leader) && ask --fail --output /dev/null "$(url_of "$node")/readyz"; then
      echo "$node"
      return
    fi
    sleep 0.02
  done
  return 1
}

# wait_for_index NODE INDEX: a follower has an entry a moment after the leader.
wait_for_index() {
  local deadline last
  deadline=$(($(now_ms) + 2000))
  while (($(now_ms) < deadline)); do
    last=$(field "$(ask "$(url_of "$1")/v1/status" || true)" last_index || true)
    ((${last:-0} >= $2)) && return
    sleep 0.05
  done
  die "$1 still does not have entry $2 after 2 seconds"
}
