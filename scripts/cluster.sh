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
# canonical FOLDER: one spelling for one folder, also for one that was deleted,
# because we look for it in the arguments of processes.
canonical() {
  local folder=$1 rest=''
  while [[ ! -d $folder ]]; do
    rest=/${folder##*/}$rest
    folder=${folder%/*}
    folder=${folder:-/}
  done
  folder=$(cd "$folder" && pwd -P)
  echo "${folder%/}$rest"
}
dir=$(canonical "${dir%/}")

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
A node keeps its address for life. Unset LEASEHOLD_BASE_PORT, or use another LEASEHOLD_CLUSTER_DIR.
To delete this cluster: unset LEASEHOLD_BASE_PORT, then scripts/cluster.sh stop, then scripts/cluster.sh wipe"
  fi
  base_port=$remembered
}

save_cluster() {
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd -P)
  size_file=$dir/size
  echo "$size $base_port" >"$size_file.new"
  mv -f -- "$size_file.new" "$size_file" # in one step: a Ctrl-C leaves no half of it
}

need_cluster() {
  load_cluster && return
  need_no_lost
  die "there is no cluster in $dir yet; start one with: scripts/cluster.sh start"
}

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

# running_nodes: a line "PID ID ADDRESS FOLDER" for each process on this machine
# that looks like a leasehold node, of whichever cluster.
running_nodes() {
  local pid line pattern=' serve --id ([^ ]+) --address ([^ ]+) --data (.+) --cluster '
  if [[ -d /proc/self ]]; then
    for pid in /proc/[0-9]*; do
      pid=${pid#/proc/}
      echo "$pid $({ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null || true)"
    done
  else
    ps -axww -o pid=,args=
  fi | while read -r pid line; do
    if [[ $line =~ $pattern ]]; then
      echo "$pid ${BASH_REMATCH[1]} ${BASH_REMATCH[2]} ${BASH_REMATCH[3]}"
    fi
  done
}

# find_lost: fills `lost` with the nodes of this folder that run, by name. For when
# the folder was deleted under them, and with it their pid files. They must be what
# launch makes, from the first word on, since `stop` ends them.
declare -A lost=()
find_lost() {
  local pid node address folder
  while read -r pid node address folder; do
    [[ $folder == "$dir/$node" ]] || continue
    [[ $(arguments_of "$pid") == "$binary serve --id $node --address $address --data $dir/$node --cluster "* ]] || continue
    lost[$node]=$pid
  done < <(running_nodes)
}

# need_no_lost: stops if there are such nodes, and says how to end them.
need_no_lost() {
  local node list=''
  find_lost
  ((${#lost[@]})) || return 0
  for node in "${!lost[@]}"; do list+=", $node (process ${lost[$node]})"; done
  die "the folder $dir was deleted while its nodes ran, and some still run: ${list#, }
A node notices within seconds and stops. To stop all of them now, also frozen ones: scripts/cluster.sh stop"
}

# pid_of NODE: prints its process id if it runs. Systems give the number of a dead
# process to a new one, so the number in the pid file alone proves nothing: the
# process must also be a `serve` of this node with this data folder.
pid_of() {
  local pid=${lost[$1]:-}
  [[ $pid ]] || { read -r pid _ <"$dir/$1.pid"; } 2>/dev/null || return 1
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
  elif [[ -f $dir/$1.pid && $(<"$dir/$1.pid") != *stopping ]]; then
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

# count_running: how many nodes run. A frozen one does not count.
count_running() {
  local node running=0
  for node in $(all_nodes); do
    if [[ $(state_of "$node") == running ]]; then running=$((running + 1)); fi
  done
  echo "$running"
}

# resolve NODE|leader: prints the name of the node.
resolve() {
  if [[ $1 == leader ]]; then
    (($(count_running))) || die "no node runs; start them with: scripts/cluster.sh start"
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

# check_ports NODE...: stops if somebody else sits on one of their ports.
check_ports() {
  local node folder='' taken=''
  for node; do
    if listening "$(port_of "$node")"; then taken+="  $(port_of "$node"): $(who_is_at "$(address_of "$node")")"$'\n'; fi
  done
  [[ $taken ]] || return 0
  # A cluster that has started once cannot move to other ports.
  [[ -f $size_file ]] && folder=" LEASEHOLD_CLUSTER_DIR=$(printf %q "$dir-2")"
  die "nothing was started, because ports on 127.0.0.1 are in use:
${taken}Or take other ports: LEASEHOLD_BASE_PORT=$((base_port + 100))$folder scripts/cluster.sh start"
}

# who_is_at ADDRESS: says who listens there, and how to stop it.
who_is_at() {
  local pid node address folder id
  while read -r pid node address folder; do
    [[ $address == "$1" ]] || continue
    if [[ -f ${folder%/"$node"}/size ]]; then
      echo "node $node of the cluster in ${folder%/"$node"} (process $pid); stop that one with: LEASEHOLD_CLUSTER_DIR=$(printf %q "${folder%/"$node"}") scripts/cluster.sh stop"
    else
      echo "node $node with the data folder $folder (process $pid); stop it with: kill $pid"
    fi
    return
  done < <(running_nodes)
  id=$(field "$(ask "http://$1/v1/status" || true)" id) || id=
  echo "${id:+leasehold node $id, }a program that was not started from here; find it with: ss -ltnp (on macOS: lsof -nP -iTCP -sTCP:LISTEN)"
}

# dead_nodes: those that we started and that have ended. These are our own
# children, and their numbers are not given away while we live.
dead_nodes() {
  local node ended=''
  for node in $(all_nodes); do
    if [[ ${started[$node]:-} ]] && ! kill -0 "${started[$node]}" 2>/dev/null; then ended+=" $node"; fi
  done
  echo "${ended# }"
}

# refuse NODE...: ends, after saying why those nodes have ended and what is left.
refuse() {
  local node running who wiped=
  for node; do
    echo "cluster.sh: $node stopped right after its start. The end of $dir/$node.log:"
    tail -n 3 "$dir/$node.log" | sed 's/^/  /'
    if tail -n 3 "$dir/$node.log" | grep -q 'empty all their folders'; then wiped=1; fi
  done
  running=$(count_running)
  if who=$(leader); then
    echo "$running of $size nodes run, and $who leads: the cluster serves without $*."
  elif ((running * 2 > size)); then
    echo "$running of $size nodes run, and none leads yet: see scripts/cluster.sh status"
  else
    echo "$running of $size nodes run, which is no majority: nothing can be granted."
  fi
  if [[ $wiped ]]; then
    echo "To begin again with an empty cluster: scripts/cluster.sh stop, then scripts/cluster.sh wipe, then scripts/cluster.sh start"
  fi
  exit 1
} >&2

# wait_ready: waits until a node leads and all the nodes that we started know it.
wait_ready() {
  local deadline grace='' who node waiting dead
  deadline=$(($(now_ms) + 15000))
  while (($(now_ms) < deadline)); do
    dead=$(dead_nodes)
    waiting=
    for node in "${!started[@]}"; do
      [[ " $dead " == *" $node "* ]] && continue
      ask --fail --output /dev/null "http://$(address_of "$node")/readyz" || waiting=$node
    done
    if [[ ! $dead && ! $waiting ]] && who=$(leader); then
      echo "$who leads at http://$(address_of "$who")"
      return
    fi
    # With one dead, the others get a moment: to die too, or to lead without it.
    if [[ $dead ]]; then
      [[ $grace ]] || grace=$(($(now_ms) + 2500))
      # shellcheck disable=SC2086 # a list of names
      if (($(now_ms) >= grace)) || { [[ ! $waiting ]] && leader >/dev/null; }; then refuse $dead; fi
    fi
    sleep 0.1
  done
  show_status >&2
  die "the cluster is not ready after 15 seconds. The nodes go on trying; their logs are $dir/n?.log"
}

# start_nodes NODE...: starts those that do not run.
declare -A started=()
start_nodes() {
  local node running missing=() dead
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
  running=0
  for node in $(all_nodes); do
    if [[ ${started[$node]:-} || $(state_of "$node") == running ]]; then running=$((running + 1)); fi
  done
  if ((running * 2 <= size)); then
    sleep 0.5 # enough to see a node that cannot start at all
    dead=$(dead_nodes)
    # shellcheck disable=SC2086 # a list of names
    [[ ! $dead ]] || refuse $dead
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
    need_no_lost
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
  local node pid nodes stopping=() left
  if load_cluster; then
    nodes=$(all_nodes)
  else
    find_lost
    nodes=${!lost[*]}
    if [[ ! $nodes ]]; then
      echo "there is no cluster in $dir"
      return
    fi
    echo "the folder $dir was deleted, and these nodes of it still run: $nodes"
  fi
  for node in $nodes; do
    if pid=$(pid_of "$node"); then
      # Should we be interrupted, this tells a node that was stopped from a dead one.
      [[ ! -f $dir/$node.pid ]] || echo "$pid stopping" >"$dir/$node.pid"
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
  for node in $nodes; do rm -f -- "$dir/$node.pid"; done
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
    need_no_lost
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
