#!/usr/bin/env bash
# Runs a cluster of leasehold nodes on this machine, to learn with and to break.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'USAGE'
usage: scripts/cluster.sh COMMAND

  start [3|5]                   start the cluster, 3 nodes if you do not say
  start NODE                    start one node again, for example n2
  stop                          stop all nodes in an orderly way
  restart                       stop, then start
  status                        one line for each node
  kill NODE|leader              kill -9: the node has no time to say goodbye
  pause NODE|leader [SECONDS]   freeze a node (SIGSTOP), and wake it after SECONDS
  resume NODE                   wake a frozen node (SIGCONT)
  logs NODE [-f]                the last lines of a node's log; -f goes on
  wipe                          delete the data of a stopped cluster
  help                          this text

Nodes are n1, n2, … on ports 8001, 8002, … of this machine. Settings, all optional:

  LEASEHOLD_CLUSTER_DIR   folder for data, logs and pid files (data/cluster)
  LEASEHOLD_BASE_PORT     nodes listen on this number plus 1, 2, … (8000)
  LEASEHOLD               the program to run (bin/leasehold)
  LEASEHOLD_SERVE_FLAGS   more flags for each `leasehold serve`, divided by spaces
USAGE
}

usage_error() {
  echo "cluster.sh: $1" >&2
  usage >&2
  exit 2
}

# ---- The folder ---------------------------------------------------------------

dir=${LEASEHOLD_CLUSTER_DIR:-$repo/data/cluster}
[[ $dir == /* ]] || dir=$PWD/$dir
# One spelling for one folder, because we look for it in the arguments of processes.
[[ -d $dir ]] && dir=$(cd "$dir" && pwd -P)

# The file `size` says what the cluster in this folder looks like. It also marks
# the folder as ours: without it nothing here is ever deleted.
size_file=$dir/size
size=0
base_port=${LEASEHOLD_BASE_PORT:-8000}

load_cluster() {
  local remembered
  [[ -f $size_file ]] || return 1
  read -r size remembered <"$size_file" || true
  [[ $size =~ ^[35]$ && $remembered =~ ^[0-9]+$ ]] ||
    die "$size_file is damaged: it should hold the number of nodes and the base port, as in \"3 8000\""
  if [[ ${LEASEHOLD_BASE_PORT:-$remembered} != "$remembered" ]]; then
    die "the cluster in $dir uses base port $remembered, but LEASEHOLD_BASE_PORT is $base_port.
A node keeps its address for life. Unset LEASEHOLD_BASE_PORT, or use another LEASEHOLD_CLUSTER_DIR, or delete this cluster with: scripts/cluster.sh wipe"
  fi
  base_port=$remembered
}

save_cluster() {
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd -P)
  size_file=$dir/size
  echo "$size $base_port" >"$size_file"
}

need_cluster() { load_cluster || die "there is no cluster in $dir yet; start one with: scripts/cluster.sh start"; }

# need_node NAME: stops unless the cluster has such a node.
need_node() {
  [[ $1 =~ ^n[1-9]$ && ${1#n} -le $size ]] || die "there is no node $1 here; the nodes are $(all_nodes)"
}

all_nodes() {
  local i names=()
  for ((i = 1; i <= size; i++)); do names+=("n$i"); done
  echo "${names[*]}"
}

port_of() { echo $((base_port + ${1#n})); }
address_of() { echo "127.0.0.1:$(port_of "$1")"; }

# ---- Processes ----------------------------------------------------------------

# arguments_of PID: its command line, with spaces between the arguments. Empty for
# a process that is gone, also for one that is dead but not yet collected.
arguments_of() {
  if [[ -d /proc/self ]]; then
    { tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null || true
  else
    ps -ww -o args= -p "$1" 2>/dev/null || true
  fi
}

# pid_of NODE: prints its process id if it runs. Systems give the number of a dead
# process to a new one, so the number in the pid file alone proves nothing: the
# process must also be a `serve` of this node with this data folder.
pid_of() {
  local pid
  { read -r pid <"$dir/$1.pid"; } 2>/dev/null || return 1
  [[ $pid =~ ^[0-9]+$ ]] || return 1
  [[ $(arguments_of "$pid") == *" serve --id $1 "*" --data $dir/$1 --cluster "* ]] || return 1
  echo "$pid"
}

is_paused() { # PID
  local state
  if [[ -d /proc/self ]]; then
    state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null || true)
  else
    state=$(ps -o stat= -p "$1" 2>/dev/null || true)
  fi
  [[ $state == T* ]]
}

state_of() {
  local pid
  if pid=$(pid_of "$1"); then
    if is_paused "$pid"; then echo paused; else echo running; fi
  elif [[ -f $dir/$1.pid ]]; then
    echo dead # it has not been stopped by us in an orderly way
  else
    echo stopped
  fi
}

# wait_gone SECONDS NODE...: prints the nodes that still run after that time.
wait_gone() {
  local deadline left node
  deadline=$(($(now_ms) + $1 * 1000))
  shift
  while :; do
    left=()
    for node; do
      if pid_of "$node" >/dev/null; then left+=("$node"); fi
    done
    ((${#left[@]})) || return 0
    (($(now_ms) < deadline)) || break
    sleep 0.1
    set -- "${left[@]}"
  done
  echo "${left[*]}"
}

# ---- The cluster --------------------------------------------------------------

status_json() { ask "http://$(address_of "$1")/v1/status" || true; }

# leader: prints the node that leads, or fails. A leader that has been cut off does
# not know yet that it was replaced, so of two that claim to lead the one with the
# higher term is right. Frozen nodes cannot answer and are not asked.
leader() {
  local node json term best='' best_term=-1
  for node in $(all_nodes); do
    [[ $(state_of "$node") == running ]] || continue
    json=$(status_json "$node")
    [[ $(field "$json" role) == leader ]] || continue
    term=$(field "$json" term) || continue
    if ((term > best_term)); then best=$node best_term=$term; fi
  done
  [[ $best ]] && echo "$best"
}

# resolve NODE|leader: prints the name of the node.
resolve() {
  if [[ $1 == leader ]]; then
    leader || die "no node leads at the moment; see: scripts/cluster.sh status"
  else
    need_node "$1"
    echo "$1"
  fi
}

members() {
  local node list=()
  for node in $(all_nodes); do list+=("$node=$(address_of "$node")"); done
  local IFS=,
  echo "${list[*]}"
}

# launch NODE: starts the process and does not wait for it.
launch() {
  local flags=()
  read -r -a flags <<<"${LEASEHOLD_SERVE_FLAGS:-}" || true
  # With job control on, the node gets a process group of its own, so Ctrl-C in
  # this terminal does not reach it. It writes its own pid file: were we to write
  # it, there would be a moment in which a node runs that nobody can find.
  set -m
  (
    echo "$BASHPID" >"$dir/$1.pid"
    exec nohup "$binary" serve --id "$1" --address "$(address_of "$1")" --data "$dir/$1" \
      --cluster "$(members)" ${flags[@]+"${flags[@]}"}
  ) </dev/null >>"$dir/$1.log" 2>&1 &
  set +m
  started[$1]=$!
}

# check_ports NODE...: stops if another program sits on one of their ports.
check_ports() {
  local node folder='' taken=()
  for node; do
    if listening "$(port_of "$node")"; then taken+=("$(port_of "$node")"); fi
  done
  ((${#taken[@]})) || return 0
  # A cluster that has started once cannot move to other ports.
  [[ -f $size_file ]] && folder=" LEASEHOLD_CLUSTER_DIR=$(printf %q "$dir-2")"
  die "port ${taken[*]} on 127.0.0.1 is in use by another program, so nothing was started.
See who it is with: ss -ltnp   Or take other ports: LEASEHOLD_BASE_PORT=$((base_port + 100))$folder scripts/cluster.sh start"
}

# check_alive: stops with the reason if a node that we started has died. These are
# our own children, and their numbers are not given away while we live.
check_alive() {
  local node
  for node in "${!started[@]}"; do
    kill -0 "${started[$node]}" 2>/dev/null && continue
    echo "cluster.sh: $node stopped right after its start. The end of $dir/$node.log:" >&2
    tail -n 10 "$dir/$node.log" | sed 's/^/  /' >&2
    exit 1
  done
}

# wait_ready: waits until a node leads and all the nodes that we started know it.
wait_ready() {
  local deadline who node waiting
  deadline=$(($(now_ms) + 15000))
  while (($(now_ms) < deadline)); do
    check_alive
    waiting=
    for node in "${!started[@]}"; do
      ask --fail --output /dev/null "http://$(address_of "$node")/readyz" || waiting=$node
    done
    if [[ ! $waiting ]] && who=$(leader); then
      echo "$who leads at http://$(address_of "$who")"
      return
    fi
    sleep 0.1
  done
  show_status >&2
  die "the cluster is not ready after 15 seconds. The nodes go on trying; their logs are $dir/n?.log"
}

# start_nodes NODE...: starts those that do not run.
declare -A started=()
start_nodes() {
  local node running=0 missing=()
  for node; do
    if pid_of "$node" >/dev/null; then
      echo "$node is already running"
    else
      missing+=("$node")
    fi
  done
  ((${#missing[@]})) || return 0
  check_ports "${missing[@]}" # before anything is written: a refused start leaves no trace
  save_cluster
  for node in "${missing[@]}"; do
    launch "$node"
    echo "$node starts at http://$(address_of "$node")"
  done
  for node in $(all_nodes); do
    if [[ ${started[$node]:-} || $(state_of "$node") == running ]]; then running=$((running + 1)); fi
  done
  if ((running * 2 <= size)); then
    sleep 0.5 # enough to see a node that cannot start at all
    check_alive
    echo "only $running of $size nodes run: no majority, so no leader yet"
    return
  fi
  wait_ready
}

# ---- Commands -----------------------------------------------------------------

command_start() {
  local wanted=${1:-} who
  [[ $wanted =~ ^$|^[35]$|^n[1-9]$ ]] || usage_error "a cluster has 3 or 5 nodes and a node is called n1, n2, …; \"$wanted\" is neither"
  [[ $base_port =~ ^[1-9][0-9]{3,4}$ && $base_port -le 65000 ]] ||
    die "LEASEHOLD_BASE_PORT is \"$base_port\"; it should be a number from 1000 to 65000"
  if [[ $wanted == n* ]]; then
    need_cluster
    need_node "$wanted"
    build_if_missing
    start_nodes "$wanted"
    return
  fi

  if load_cluster; then
    if [[ $wanted && $wanted != "$size" ]]; then
      die "the cluster in $dir has $size nodes and cannot be started with $wanted.
Start it with: scripts/cluster.sh start $size   Or delete it: scripts/cluster.sh stop, then scripts/cluster.sh wipe"
    fi
  else
    size=${wanted:-3}
  fi
  local nodes node running=0
  read -r -a nodes <<<"$(all_nodes)"
  for node in "${nodes[@]}"; do
    if pid_of "$node" >/dev/null; then running=$((running + 1)); fi
  done
  if ((running == size)); then
    echo "the cluster is already running"
    show_status
    return
  fi
  build_if_missing
  start_nodes "${nodes[@]}"
}

command_stop() {
  local node pid stopping=() left
  if ! load_cluster; then
    echo "there is no cluster in $dir"
    return
  fi
  for node in $(all_nodes); do
    if pid=$(pid_of "$node"); then
      kill -CONT "$pid" 2>/dev/null || true # a frozen process cannot obey
      kill -TERM "$pid" 2>/dev/null || true
      stopping+=("$node")
    fi
  done
  if ((${#stopping[@]})); then
    left=$(wait_gone 10 "${stopping[@]}")
    if [[ $left ]]; then
      echo "not stopped after 10 seconds, killing: $left"
      for node in $left; do
        if pid=$(pid_of "$node"); then kill -KILL "$pid" 2>/dev/null || true; fi
      done
      # shellcheck disable=SC2086 # a list of names
      left=$(wait_gone 5 $left)
      [[ ! $left ]] || die "these nodes survive even kill -9: $left"
    fi
    echo "stopped ${stopping[*]}"
  else
    echo "no node was running"
  fi
  for node in $(all_nodes); do rm -f -- "$dir/$node.pid"; done
}

command_restart() {
  need_cluster
  command_stop
  command_start "$size"
}

show_status() {
  local node pid json state
  printf '%-5s %-16s %-8s %-8s %-10s %6s %8s\n' NODE ADDRESS STATE PID ROLE TERM APPLIED
  for node in $(all_nodes); do
    state=$(state_of "$node")
    pid=$(pid_of "$node") || pid=-
    json=
    [[ $state == running ]] && json=$(status_json "$node")
    printf '%-5s %-16s %-8s %-8s %-10s %6s %8s\n' "$node" "$(address_of "$node")" "$state" "$pid" \
      "$(field "$json" role || echo -)" "$(field "$json" term || echo -)" "$(field "$json" applied_index || echo -)"
  done
}

command_status() {
  need_cluster
  show_status
}

# running_pid NODE: its process id, or stops.
running_pid() { pid_of "$1" || die "$1 is not running"; }

command_kill() {
  local node pid
  need_cluster
  node=$(resolve "$1")
  pid=$(running_pid "$node")
  kill -KILL "$pid"
  [[ ! $(wait_gone 5 "$node") ]] || die "$node survives kill -9"
  echo "killed $node (kill -9 $pid); bring it back with: scripts/cluster.sh start $node"
}

# wake_later NODE PID SECONDS: wakes a frozen node after that time. It looks often
# and goes away as soon as the process is no longer frozen or no longer the same,
# so it never touches a node that was resumed or restarted in the meantime.
wake_later() {
  local deadline
  deadline=$(($(now_ms) + $3))
  cd /
  while [[ $(pid_of "$1") == "$2" ]] && is_paused "$2"; do
    if (($(now_ms) >= deadline)); then
      kill -CONT "$2"
      return
    fi
    sleep 0.1
  done
}

command_pause() {
  local node pid seconds=${2:-} fraction ms i
  [[ $seconds =~ ^([0-9]{1,6}(\.[0-9]{1,3})?)?$ ]] || usage_error "SECONDS must be a number such as 5 or 0.5, not \"$seconds\""
  need_cluster
  node=$(resolve "$1")
  pid=$(running_pid "$node")
  is_paused "$pid" && die "$node is paused already; wake it with: scripts/cluster.sh resume $node"
  kill -STOP "$pid"
  for ((i = 0; i < 50; i++)); do
    if is_paused "$pid"; then break; fi
    sleep 0.02
  done
  if [[ ! $seconds ]]; then
    echo "paused $node; wake it with: scripts/cluster.sh resume $node"
    return
  fi
  fraction=${seconds#"${seconds%%.*}"}000 # ".5000" for 0.5, "000" for 5
  fraction=${fraction#.}
  ms=$((10#${seconds%%.*} * 1000 + 10#${fraction:0:3}))
  set -m # a group of its own, so that Ctrl-C does not leave the node frozen for ever
  wake_later "$node" "$pid" "$ms" </dev/null >/dev/null 2>&1 &
  set +m
  echo "paused $node; it wakes by itself after $seconds s"
}

command_resume() {
  local pid
  need_cluster
  need_node "$1"
  pid=$(running_pid "$1")
  if ! is_paused "$pid"; then
    echo "$1 is not paused"
    return
  fi
  kill -CONT "$pid"
  sleep 0.3 # lets a waiting wake_later notice, before a new pause could confuse it
  echo "resumed $1"
}

command_logs() {
  local follow=()
  [[ ${2:-} =~ ^(-f)?$ ]] || usage_error "logs takes a node and perhaps -f, not \"$2\""
  [[ ${2:-} == -f ]] && follow=(-f)
  need_cluster
  need_node "$1"
  [[ -f $dir/$1.log ]] || die "$1 has no log yet"
  exec tail -n 100 ${follow[@]+"${follow[@]}"} "$dir/$1.log"
}

command_wipe() {
  local node running=()
  if ! load_cluster; then
    echo "there is no cluster in $dir"
    return
  fi
  for node in $(all_nodes); do
    if pid_of "$node" >/dev/null; then running+=("$node"); fi
  done
  ((${#running[@]} == 0)) || die "still running: ${running[*]}. Stop the cluster first: scripts/cluster.sh stop"
  for node in $(all_nodes); do
    rm -rf -- "${dir:?}/$node"
    rm -f -- "$dir/$node.log" "$dir/$node.pid"
  done
  rm -f -- "$size_file"
  if rmdir -- "$dir" 2>/dev/null; then
    echo "deleted the cluster in $dir"
  else
    echo "deleted the cluster in $dir; the folder stays, because there are other files in it"
  fi
}

# The command, and how many words it may have with its arguments.
case ${1:-help} in
  start | stop | restart | status | kill | pause | resume | logs | wipe) need curl sed tail ;;
esac
case "${1:-help}:$#" in
  start:[12] | stop:1 | restart:1 | status:1 | wipe:1 | kill:2 | pause:[23] | resume:2 | logs:[23])
    "command_$1" "${@:2}"
    ;;
  help:* | -h:* | --help:*) usage ;;
  start:* | stop:* | restart:* | status:* | wipe:*) usage_error "too many arguments after \"$1\"" ;;
  kill:* | pause:* | resume:* | logs:*) usage_error "\"$1\" needs the name of one node" ;;
  *) usage_error "unknown command \"$1\"" ;;
esac
