#!/usr/bin/env bash
# Makes a release in dist/: the sdist, the wheel, which runs on CPUs and GPUs, and the tag. Publishes nothing.
# Usage: scripts/release.sh VERSION    on main, on Debian 12 with nvcc; 40 minutes on two cores
# Before: set the version in CMakeLists.txt, turn CHANGELOG's [Unreleased] into [VERSION] - DATE, commit.
set -euo pipefail
cd "$(dirname "$0")/.."
version="${1:?usage: scripts/release.sh VERSION}"
fail() { echo "release: $*" >&2; exit 1; }

# Everything that can be wrong is looked at before anything is built.
[ -z "$(git status --porcelain)" ] || fail "the work tree has changes that are not committed"
[ "$(git branch --show-current)" = main ] || fail "the branch is $(git branch --show-current), not main"
git rev-parse -q --verify "refs/tags/v$version" >/dev/null && fail "the tag v$version is there already"
grep -q "^project(trunkline VERSION $version " CMakeLists.txt || fail "CMakeLists.txt has another version than $version"
grep -q "^## \[$version\] - [0-9-]*$" CHANGELOG.md || fail "CHANGELOG.md has no heading \"## [$version] - DATE\""
command -v nvcc >/dev/null || fail "nvcc is not in PATH, so there would be no wheel with CUDA"
. /etc/os-release
[ "$ID-${VERSION_ID:-}" = debian-12 ] || fail "this is $PRETTY_NAME; wheels are built on Debian 12, for manylinux_2_34"

bash scripts/lint.sh
make test
rm -rf dist
TRUNKLINE_CUDA=ON bash scripts/build_wheel.sh
build/wheel/venv/bin/python -m build --quiet --sdist --outdir dist .
build/wheel/venv/bin/twine check --strict dist/*.tar.gz
(cd dist && sha256sum ./*.tar.gz ./*.whl >SHA256SUMS)
git tag -a "v$version" -m "Trunkline $version"
cat dist/SHA256SUMS
echo "release: v$version is tagged here. To publish: git push origin main v$version; twine upload dist/*.whl dist/*.tar.gz"
