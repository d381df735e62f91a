#!/usr/bin/env bash
# Runs the README's two commands, whole, in a fresh Debian or Ubuntu root with nothing but git and make. By hand, before a
# release: it takes half an hour on two cores.
# Usage: scripts/fresh_machine.sh RELEASE [DIRECTORY]    as root
#   RELEASE    12 or 13 (Debian), 24.04 (Ubuntu), or a code name that debootstrap knows
#   DIRECTORY  where the root is made, kept afterwards; without it a temporary one, removed at the end
# MIRROR names another package mirror. PIP_CERT, PIP_INDEX_URL and the *_proxy variables are taken along.
# What is tested is the last commit, not the working tree.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: scripts/fresh_machine.sh RELEASE [DIRECTORY]" >&2
  exit 2
fi
case "$1" in
  12) suite=bookworm ;;
  13) suite=trixie ;;
  24.04) suite=noble ;;
  *) suite="$1" ;;
esac
if ! command -v debootstrap >/dev/null; then
  echo "fresh_machine: debootstrap is not here: apt-get install debootstrap" >&2
  exit 1
fi

root="${2:-$(mktemp -d)}"
mounted=()
clean_up() {
  for place in "${mounted[@]}"; do umount -l "$place"; done
  [ -n "${directory_given:-}" ] || rm -rf --one-file-system "$root"
}
directory_given="${2:-}"
trap clean_up EXIT

debootstrap --variant=minbase --include=git,make "$suite" "$root" ${MIRROR:+"$MIRROR"}
for place in proc dev; do
  mount --rbind "/$place" "$root/$place"
  mount --make-rslave "$root/$place"
  mounted+=("$root/$place")
done
cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
settings=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8)
for name in PIP_INDEX_URL http_proxy https_proxy no_proxy; do
  [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
if [ -n "${PIP_CERT:-}" ]; then
  install -D --mode 644 "$PIP_CERT" "$root/root/certificates.pem"
  settings+=(PIP_CERT=/root/certificates.pem)
fi
commit="$(git rev-parse --short=12 HEAD)"
rm -rf "$root/root/trunkline"
git clone --quiet --no-hardlinks . "$root/root/trunkline"

for target in demo test; do
  echo "== make $target on $suite ($SECONDS s)"
  env --ignore-environment "${settings[@]}" chroot "$root" make -C /root/trunkline "$target"
done
echo "== $suite: make demo and make test passed at $commit ($SECONDS s)"
