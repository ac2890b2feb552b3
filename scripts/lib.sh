# shellcheck shell=bash
# Functions that several scripts share. Sourced, never run.

if ((BASH_VERSINFO[0] < 4)); then
  echo "this script needs bash 4 or newer, and this is bash $BASH_VERSION" >&2
  exit 1
fi

# The folder of the repository, wherever the caller stands.
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# Used by the scripts that source this file.
# shellcheck disable=SC2034
binary=${LEASEHOLD:-$repo/bin/leasehold}

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# need PROGRAM...: stops if one of them is not installed.
need() {
  local program
  for program; do
    command -v "$program" >/dev/null || die "$program is needed, and it is not installed"
  done
}

# ask CURL-ARGUMENTS...: curl for scripts. It ignores the user's own settings and
# proxies, which must not come between us and a node on this machine.
ask() { curl -q --silent --noproxy '*' --max-time 1 "$@"; }

# field JSON NAME: prints the value of that name in the first object of the text, a
# string without its quotes. Objects inside that object are left out: a problem has
# an "index", and the lease in it has another. Enough for our answers; it is not a
# JSON parser.
field() {
  local text=${1#*\{} pattern
  text=${text%\}*}
  while [[ $text =~ \{[^{}]*\} ]]; do text=${text/"${BASH_REMATCH[0]}"/}; done
  pattern="\"$2\"[[:space:]]*:[[:space:]]*(\"(([^\"\\]|\\\\.)*)\"|[^][{}\",[:space:]]+)"
  [[ $text =~ $pattern ]] || return 1
  if [[ ${BASH_REMATCH[1]} == \"* ]]; then
    text=${BASH_REMATCH[2]}
    printf '%s\n' "${text//\\\"/\"}"
  else
    printf '%s\n' "${BASH_REMATCH[1]}"
  fi
}

# now_ms: the time in milliseconds, to measure how long something took.
now_ms() {
  local now=${EPOCHREALTIME:-}
  if [[ $now ]]; then
    now=${now/[.,]/} # a decimal comma in some languages
    echo $((now / 1000))
  else # bash 4 knows whole seconds only
    echo $(($(date +%s) * 1000))
  fi
}

# listening PORT: is there a program that takes connections on this port?
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_base_port COUNT: prints a number such that the COUNT ports after it are
# free. It stays below the range from which systems give ports to clients, so
# that an outgoing connection does not take one of them a moment later.
free_base_port() {
  local try base i
  for ((try = 0; try < 100; try++)); do
    base=$((20000 + RANDOM % 1000 * 10))
    for ((i = 1; i <= $1; i++)); do
      if listening $((base + i)); then continue 2; fi
    done
    echo "$base"
    return
  done
  die "found no $1 free ports between 20000 and 30000"
}

# build_if_missing: makes sure that there is a program to run.
build_if_missing() {
  [[ -x $binary ]] && return
  [[ ${LEASEHOLD:-} ]] && die "LEASEHOLD names $binary, which is not a program that can be run"
  command -v go >/dev/null ||
    die "$binary is missing, and so is Go to build it. Install Go (see go.mod for the version), then: make build"
  echo "$binary is missing; building it with: make build"
  make -C "$repo" --no-print-directory build
}
