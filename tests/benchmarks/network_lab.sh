#!/usr/bin/env bash
# Runs a program over several "hosts" with a slow network between them, all on this machine: each
# host is a network namespace, whose link to a common bridge is limited both ways. Needs root.
#   network_lab.sh [--hosts 4] [--gigabits 1] [PROGRAM ARGUMENTS...]
#   network_lab.sh codec    what codecs gain, into results/codec_lab.md (codec_lab.sh says how)
#   network_lab.sh pruned   what SAMO gains, into results/pruned_lab.md (pruned_lab.sh says how)
# Without a program: the all-reduce benchmark against its bandwidth bound, as a Markdown table.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
hosts=4 gigabits=1 runs=$(mktemp -d)
while [[ ${1:-} == --* ]]; do
  case $1 in
    --hosts) hosts=$2; shift 2 ;;
    --gigabits) gigabits=$2; shift 2 ;;
    -h | --help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
    *) echo "network_lab.sh: unknown option '$1'" >&2; exit 2 ;;
  esac
done
[[ $# -gt 0 ]] || set -- "$root/build/bin/benchmarks/all_reduce" --gigabits "$gigabits"

for tool in ip tc mpirun; do
  command -v "$tool" >/dev/null || { echo "network_lab.sh needs $tool (Debian: iproute2, openmpi-bin)" >&2; exit 1; }
done
[[ $(mpirun --version) == *"Open MPI"* ]] ||
  { echo "network_lab.sh needs the mpirun of Open MPI, whose flags it uses; this one is another's" >&2; exit 1; }
[[ $EUID -eq 0 ]] || { echo "network_lab.sh makes network namespaces: run it as root" >&2; exit 1; }

lab=pglab$$
agent=$runs/agent
clean() {
  for host in $(seq 0 "$hosts"); do ip netns delete "$lab-$host" 2>/dev/null || true; done
  rm -rf "$runs"
}
trap clean EXIT

# Namespace 0 holds the bridge and mpirun; namespace i is host 10.77.0.i. All goes when they go.
ip netns add "$lab-0"
ip -n "$lab-0" link set lo up
ip -n "$lab-0" link add bridge0 type bridge
ip -n "$lab-0" address add 10.77.0.254/24 dev bridge0
ip -n "$lab-0" link set bridge0 up
list=""
for host in $(seq "$hosts"); do
  ip netns add "$lab-$host"
  ip -n "$lab-$host" link set lo up
  ip -n "$lab-0" link add "port$host" type veth peer name eth0 netns "$lab-$host"
  ip -n "$lab-0" link set "port$host" master bridge0 up
  ip -n "$lab-$host" address add "10.77.0.$host/24" dev eth0
  ip -n "$lab-$host" link set eth0 up
  ip netns exec "$lab-$host" sysctl -qw net.ipv4.tcp_congestion_control=reno  # every Linux has it
  list+="${list:+,}10.77.0.$host"
done

# What mpirun calls instead of ssh: agent HOST COMMAND. Each host has a name of its own, as mpirun's
# folders and hierarchical sums need.
printf '#!/bin/sh\nhost=${1##*.}; shift\nexec ip netns exec "%s-$host" unshare --uts sh -c "hostname host$host; $*"\n' "$lab" >"$agent"
chmod +x "$agent"

# What passes at once is two milliseconds' worth, or a large packet.
limit_links() {  # limit_links GIGABITS
  local host burst
  burst=$(awk -v rate="$1" 'BEGIN { kb = rate * 250; print (kb > 70 ? int(kb) : 70) }')
  limit() { ip netns exec "$1" tc qdisc replace dev "$2" root tbf rate "$3gbit" burst "$burst"kb latency 50ms; }
  for host in $(seq "$hosts"); do
    limit "$lab-$host" eth0 "$1"    # what the host sends
    limit "$lab-0" "port$host" "$1" # what it receives
  done
}

on_hosts() {  # on_hosts PROGRAM ARGUMENTS...
  local network=10.77.0.0/24
  ip netns exec "$lab-0" env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    mpirun --timeout 900 --mca plm_rsh_agent "$agent" --mca pml ob1 --mca btl tcp,self \
    --mca btl_tcp_if_include $network --mca oob_tcp_if_include $network --host "$list" \
    --map-by node --bind-to none -n "$hosts" "$@"
}

if [[ $1 == codec || $1 == pruned ]]; then
  source "$root/tests/benchmarks/$1_lab.sh"
else
  limit_links "$gigabits"
  on_hosts "$@"
fi
