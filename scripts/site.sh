#!/usr/bin/env bash
# Builds the site into site/ from docs/, the pages beside the code, and the commands' own help. A broken link fails it.
#
#   scripts/site.sh            # build; open site/index.html
#   scripts/site.sh serve      # the same on http://127.0.0.1:8000 while pages are written
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh
source scripts/layers.sh

make_site
.venv-site/bin/python docs/assemble.py build/site
case "${1:-build}" in
    build)
        .venv-site/bin/zensical build --clean --strict
        .venv-site/bin/python docs/check_links.py site
        ;;
    serve) .venv-site/bin/zensical serve ;;
    *)
        echo "scripts/site.sh: unknown argument '$1': expected build or serve" >&2
        exit 2
        ;;
esac
