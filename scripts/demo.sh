#!/usr/bin/env bash
# The main ideas of leasehold in a few seconds, on three real processes. Every
# command is shown before it runs and every result is checked.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/private.sh
source "$repo/scripts/private.sh"
need curl sed tail mktemp

# ---- Telling and checking -------------------------------------------------------

heading=0
step() {
  heading=$((heading + 1))
  printf '\n== %d. %s\n' "$heading" "$1"
}

say() { printf '%s\n' "$@"; }

# expect WHAT EXPECTED GOT: ends the demo if a result is not as told.
expect() {
  [[ $3 == "$2" ]] && return
  printf '\nNOT AS EXPECTED: %s: expected %s, got %s\n' "$1" "$2" "${3:-nothing}" >&2
  exit 1
}

# expect_above WHAT BOUND GOT
expect_above() {
  [[ $3 =~ ^[0-9]+$ ]] && (($3 > $2)) && return
  printf '\nNOT AS EXPECTED: %s: expected a number above %s, got %s\n' "$1" "$2" "${3:-nothing}" >&2
  exit 1
}

# show COMMAND...: prints the command as one would type it.
show() {
  local word line=''
  for word; do
    if [[ ! $word =~ ^[A-Za-z0-9_./:=@%+,-]+$ ]]; then word="'${word//\'/\'\\\'\'}'"; fi
    line+=" $word"
  done
  printf '$%s\n' "$line"
}

# try COMMAND...: shows it, runs it, shows its output and keeps it in $output.
try() {
  show "$@"
  if [[ $1 == curl ]]; then
    output=$(ask --show-error --max-time 10 "${@:2}") || expect "the exit code of curl" 0 $?
    output=${output//$'\r'/}
  else
    output=$("$@" 2>&1) || { printf '%s\n' "$output"; expect "the exit code of the command" 0 1; }
  fi
  [[ ! $output ]] || printf '%s\n' "$output"
}

# http_status: the status in $output, which curl -i has put into its first line.
http_status() { [[ $output =~ ^HTTP/[0-9.]+\ ([0-9]+) ]] && echo "${BASH_REMATCH[1]}"; }
got() { field "$output" "$1" || true; }
json_body() { printf '{"name":"%s","holder":"%s",%s}' "$1" "$2" "$3"; }

# ---- The demo -------------------------------------------------------------------

cd "$repo"
say "leasehold in nine steps: three nodes, one lease, and what happens when things die." \
  "It runs in a folder and on ports of its own, and removes everything at the end." \
  "Lines that begin with \$ are commands that you can type as they stand."
build_if_missing
use_private_cluster "${TMPDIR:-/tmp}"
printf '\n$ export LEASEHOLD_CLUSTER_DIR=%q LEASEHOLD_BASE_PORT=%s\n' "$LEASEHOLD_CLUSTER_DIR" "$LEASEHOLD_BASE_PORT"

step "Start three nodes"
try scripts/cluster.sh start 3
leader=$(private_leader)
follower=n1
[[ $leader != n1 ]] || follower=n2
say "One node has been elected leader. $leader leads, $follower follows."

step "Ask a follower for a lease"
say "Only the leader can grant. A follower does not: it sends you to the leader (status 307)."
try curl -si "$(url_of "$follower")/v1/acquire" -d "$(json_body demo/job alice '"ttl_ms":20000')"
expect "the status of a follower's answer" 307 "$(http_status)"
[[ $output == *"Location: $(url_of "$leader")/v1/acquire"* ]] || expect "the redirect" "a Location at $leader" "$output"
say "" "With -L, curl goes where Location points, and alice gets the lease."
try curl -sL "$(url_of "$follower")/v1/acquire" -d "$(json_body demo/job alice '"ttl_ms":20000')"
token=$(got token)
expect_above "the token" 0 "$token"
say "Her fencing token is $token. Remember it."

step "Where does the token come from?"
say "It is the index of the log entry that made the grant. Each node has that entry:"
for node in n1 n2 n3; do
  wait_for_index "$node" "$token"
  try curl -s "$(url_of "$node")/v1/log?from=$token&limit=1"
  entry=${output#*\"entries\"} # the first object behind this is the entry
  expect "the index of the entry on $node" "$token" "$(field "$entry" index || true)"
  expect "the kind of entry $token on $node" acquire "$(field "$entry" kind || true)"
  expect "the holder in entry $token on $node" alice "$(field "$entry" holder || true)"
done

step "Kill the leader"
old_term=$(field "$(ask "$(url_of "$leader")/v1/status")" term || true)
begin=$(now_ms)
try scripts/cluster.sh kill leader
dead=$leader
leader=$(wait_for_leader 15) || expect "a new leader after the death of $dead" "one within 15 s" "none"
took=$(($(now_ms) - begin))
try curl -s "$(url_of "$leader")/v1/status"
expect_above "the new term" "$old_term" "$(got term)"
say "$leader leads now, at most $took ms after the kill. The two others first had to be sure that $dead is silent," \
  "then they voted. The term went up from $old_term to $(got term)."

step "The lease is still hers"
say "The grant is in the log of the two survivors, so alice renews with the same token $token."
try curl -sL "$(url_of "$leader")/v1/renew" -d "$(json_body demo/job alice "\"token\":$token")"
expect "the token after the renewal" "$token" "$(got token)"

step "A wrong token is refused"
wrong=$((token - 1))
say "Token $wrong never was a grant of this lease. Look at the status and at \"detail\"."
try curl -siL "$(url_of "$leader")/v1/release" -d "$(json_body demo/job alice "\"token\":$wrong")"
expect "the status of a release with token $wrong" 410 "$(http_status)"
expect "the code of a release with token $wrong" lease_lost "$(got code)"
say "" "With the right one she gives the lease back."
try curl -sL "$(url_of "$leader")/v1/release" -d "$(json_body demo/job alice "\"token\":$token")"
expect "the token of the release" "$token" "$(got token)"

step "A holder that goes silent"
say "worker-a takes a lease for one second and never renews it."
try curl -sL "$(url_of "$leader")/v1/acquire" -d "$(json_body demo/batch worker-a '"ttl_ms":1000')"
first=$(got token)
expect_above "the token of worker-a" "$token" "$first"
say "" "worker-b asks at once. It is refused (409), and \"retry_after_ms\" says how long to wait."
try curl -siL "$(url_of "$leader")/v1/acquire" -d "$(json_body demo/batch worker-b '"ttl_ms":10000')"
expect "the status of worker-b's first try" 409 "$(http_status)"
expect "the code of worker-b's first try" held "$(got code)"
retry=$(got retry_after_ms)
expect_above "retry_after_ms" 0 "$retry"
say "" "It sleeps that long and asks again. No renewal came, so the grant of worker-a has ended."
try sleep "$(printf '%d.%03d' $((retry / 1000)) $((retry % 1000)))"
try curl -sL "$(url_of "$leader")/v1/acquire" -d "$(json_body demo/batch worker-b '"ttl_ms":10000')"
second=$(got token)
expect_above "the token of worker-b" "$first" "$second"
say "worker-b has token $second. It is higher than $first, as every later token is."

step "The first holder wakes up"
say "worker-a believes that it still holds the lease, and wants to give it back." \
  "The server refuses and says what happened, and at which index of the log."
try curl -siL "$(url_of "$leader")/v1/release" -d "$(json_body demo/batch worker-a "\"token\":$first")"
expect "the status of worker-a's late release" 410 "$(http_status)"
expect "how the grant of worker-a ended" expired "$(got how)"
detail=$(got detail)
ended=$(got index)
expect_above "the index at which the grant ended" "$first" "$ended"
[[ $detail == *expired* && $detail == *"$ended"* ]] ||
  expect "the detail" "a sentence with \"expired\" and the index $ended" "$detail"
say "" "You can look that entry up: the server ended the grant by an entry, not by a private clock."
try curl -s "$(url_of "$leader")/v1/log?from=$ended&limit=1"
entry=${output#*\"entries\"}
expect "the kind of entry $ended" expire "$(field "$entry" kind || true)"
expect "the token in entry $ended" "$first" "$(field "$entry" token || true)"

step "Stop"
try scripts/cluster.sh stop
printf '\nAll %d steps went as told. Next: make cluster, and try your own.\n' "$heading"
