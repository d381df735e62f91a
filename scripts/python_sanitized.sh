#!/usr/bin/env bash
# The Python tests with the library, and the compiled part of the package, under AddressSanitizer and
# UndefinedBehaviorSanitizer. CPython itself is not sanitized. Memory that was lost is counted where the library or the
# package took it: CPython leaks at its end.
#
# Usage: scripts/python_sanitized.sh BUILD PYTHON [pytest's arguments]
#   BUILD    a build with clang-14 and TRUNKLINE_SANITIZE=address,undefined, as .ci/run has it
#   PYTHON   an interpreter with scripts/requirements-python-tests.txt installed
set -euo pipefail
cd "$(dirname "$0")/.."
build="$(realpath "$1")" python="$2"
shift 2
package="$build/python_sanitized"
rm -rf "$package"
mkdir -p "$package"
cp -r python/trunkline "$package/"
cp -L "$build/src/capi/libtrunkline.so.0" "$package/trunkline/"
include="$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
clang-14 -shared -fPIC -O1 -g1 -std=c11 -fvisibility=hidden -fsanitize=address,undefined -fno-sanitize-recover=all \
  -shared-libasan -fno-omit-frame-pointer -DPy_LIMITED_API=0x030A0000 -Iinclude -Ipython/direct -I"$include" \
  python/direct/*.c "$package/trunkline/libtrunkline.so.0" -Wl,-rpath,'$ORIGIN' -o "$package/trunkline/_direct.abi3.so"
export PYTHONPATH="$package" PYTHONMALLOC=malloc LD_PRELOAD
LD_PRELOAD="$(clang-14 -print-file-name=libclang_rt.asan-x86_64.so)"
reports="$build/python_sanitized/report"
export ASAN_OPTIONS="log_path=$reports:detect_leaks=1:allocator_may_return_null=1"
# Leaks alone do not end a process with an error; an error of memory aborts it.
export LSAN_OPTIONS="exitcode=0"
cd "$build"
# Not the program and times of a release build.
"$python" -m pytest --quiet -p no:cacheprovider -c "$OLDPWD/pyproject.toml" --rootdir "$OLDPWD" "$OLDPWD/tests/python" \
  --deselect tests/python/test_package.py \
  --deselect tests/python/test_pages_used.py::test_a_wide_pool_costs_what_is_used_of_it \
  "$@"
unset LD_PRELOAD
if grep -lE 'libtrunkline|_direct|ERROR: AddressSanitizer' "$reports".* 2>/dev/null; then
  echo "the reports above name the library or the package" >&2
  exit 1
fi
