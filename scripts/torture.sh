#!/usr/bin/env bash
# Tortures clusters of 3 and of 5 nodes with each fault set, one after the other, and
# ends with a table. What is known of each run is left in a folder.
#
#   scripts/torture.sh [--duration 60s] [--nodes '3 5'] [--seed N] [--out FOLDER] [SET...]
#
# Exit codes as those of leasehold torture: 1 if a promise was broken in any run, else 2
# if any was inconclusive, else 3 if the tool failed in any, else 0.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

duration=60s nodes='3 5' seed=$((RANDOM + 1)) out='' sets=()
while (($#)); do
  case $1 in
  --duration) duration=$2 && shift 2 ;;
  --nodes) nodes=$2 && shift 2 ;;
  --seed) seed=$2 && shift 2 ;;
  --out) out=$2 && shift 2 ;;
  --help | -h) sed -n '2,9s/^# \{0,1\}//p' "$0" && exit ;;
  -*) die "there is no option $1; see --help" ;;
  *) sets+=("$1") && shift ;;
  esac
done
((${#sets[@]})) || sets=(mixed kill blackout pause isolate split one-way slow-links jam replies disk clock)
[[ $duration =~ ^[0-9]+s$ ]] || die "--duration is in seconds, such as 60s"
[[ -x $binary ]] || die "$binary is missing; run make build"
out=${out:-$(mktemp -d "${TMPDIR:-/tmp}/leasehold-torture.XXXXXX")}

read -ra sizes <<<"$nodes"
runs=$((${#sizes[@]} * ${#sets[@]}))
each=$((${duration%s} + 7))
echo "$runs runs of $duration, about $(((runs * each + 59) / 60)) minutes in all; seeds from $seed on, results in $out"

verdicts=(holds violated inconclusive 'NO VERDICT')
table=() worst=0 done=0
for size in "${sizes[@]}"; do
  for set in "${sets[@]}"; do
    folder=$out/$size-$set code=0
    mkdir -p "$folder"
    printf '%3d/%d  %d nodes  %-10s  seed %-6d  ' $((done + 1)) "$runs" "$size" "$set" "$seed"
    "$binary" torture --nodes "$size" --faults "$set" --seed "$seed" --duration "$duration" --out "$folder/run" \
      >"$folder/verdict.txt" 2>"$folder/progress.txt" || code=$?
    ((code != 130 && code != 143)) || exit "$code" # interrupted
    ((code < 3)) || code=3
    evidence=$(sed -n 's/^evidence: \([0-9]* operations\).*, \([0-9]* new terms, [0-9]* expiries\).*/\1, \2/p' "$folder/verdict.txt")
    row=$(printf '%-12s  %s' "${verdicts[code]}" "${evidence:-$(tail -1 "$folder/progress.txt")}")
    echo "$row"
    ((code == 0)) || sed -n 's/^ *\(missing:.*\)/          \1/p; s/^\(P[0-9b]* *violated.*\)/          \1/p' "$folder/verdict.txt"
    table+=("$(printf '%d nodes  %-10s  seed %-6d  %s' "$size" "$set" "$seed" "$row")")
    case $worst$code in
    [023]1) worst=1 ;;
    [03]2) worst=2 ;;
    03) worst=3 ;;
    esac
    done=$((done + 1)) seed=$((seed + 1))
  done
done

printf '\n'
printf '%s\n' "${table[@]}"
printf '\n%s; reports are in %s/*/run/report.html\n' "${verdicts[worst]}" "$out"
exit "$worst"
