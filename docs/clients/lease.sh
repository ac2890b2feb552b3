#!/usr/bin/env bash
# Runs a command while it holds a leasehold lease: the rules of
# docs/OTHER_LANGUAGES.md in bash with curl, for Linux.
#
#   LEASEHOLD_SERVER=127.0.0.1:8001,127.0.0.1:8002 lease.sh NAME TTL_SECONDS COMMAND…
set -u -m # -m: a job is a process group of its own
name=$1 ttl=$2
shift 2
IFS=, read -ra servers <<<"${LEASEHOLD_SERVER:-127.0.0.1:8001}"
holder=bash-$HOSTNAME-$$-$RANDOM

now() { # milliseconds, monotonic
  local up
  read -r up _ </proc/uptime
  echo "${up/./}0"
}
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" <<<"$answer"; }

# call PATH BODY UNTIL: the same to one server after another until one has answered
# for the cluster, which is in $status and $answer.
call() {
  local server left
  while (($(now) < $3)); do
    for server in "${servers[@]}"; do
      left=$(($3 - $(now)))
      ((left > 0)) || break
      answer=$(curl -sL --max-time "$(printf '%d.%03d' $((left / 1000)) $((left % 1000)))" -w '\n%{http_code}' "http://$server$1" -d "$2")
      status=${answer##*$'\n'} answer=${answer%$'\n'*}
      case $status in 000 | 307 | 503 | 504) ;; *) return 0 ;; esac # no answer, or none that counts
    done
    sleep 0.1
  done
  return 1
}

sent=$(now)
call /v1/acquire "{\"name\":\"$name\",\"holder\":\"$holder\",\"ttl_ms\":$((ttl * 1000)),\"request_id\":\"$holder\"}" $((sent + 10000)) || { echo "no server answers" >&2; exit 125; }
[[ $status == 200 ]] || { field detail >&2; exit 75; }
token=$(field token)
grant="{\"name\":\"$name\",\"holder\":\"$holder\",\"token\":$token}"
((until = sent + ttl * 950)) # counts from before sending, and leaves a margin
if [[ $(field replayed) == true ]]; then # the TTL has run since the first sending, which is sent
  call /v1/renew "$grant" $until && [[ $status == 200 ]] || exit 75
fi

LEASEHOLD_TOKEN=$token "$@" &
child=$!
next=$((sent + ttl * 333))
while kill -0 $child 2>/dev/null; do
  if (($(now) >= next)); then
    sent=$(now)
    next=$((sent + ttl * 333))
    limit=$((next < until ? next : until))
    if call /v1/renew "$grant" $limit; then
      [[ $status == 200 ]] && ((until = sent + ttl * 950)) || until=0
    fi
  fi
  if (($(now) >= until)); then
    kill -KILL -- -$child
    wait $child 2>/dev/null
    echo "the lease is lost" >&2
    exit 123
  fi
  sleep 0.05
done
wait $child
code=$?
call /v1/release "$grant" $(($(now) + 5000)) # only now: the work has ended
exit $code
