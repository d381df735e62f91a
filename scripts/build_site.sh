#!/usr/bin/env bash
# Builds the site of this repository's pages into build/site, and looks at it in a browser where one is installed. Fails at
# a link that leads nowhere and at a page without a place in the navigation. Needs Python 3.11 or later.
set -euo pipefail
cd "$(dirname "$0")/.."

python="${PYTHON:-python3}"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "build_site: Sphinx needs Python 3.11 or later")'
environment=build/site-venv
"$python" -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check -r scripts/requirements-site.txt
rm -rf build/site
"$environment/bin/python" -m sphinx -c scripts/site -b html -E -d build/site-doctrees -W --keep-going -j auto -q . build/site
TRUNKLINE_SITE=build/site "$python" tests/site/test_site.py
echo "build_site: build/site/index.html"
