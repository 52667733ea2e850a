#!/usr/bin/env bash
# with_module.sh HAS_MODULE NODE SCRIPT...: runs a script by Node if this build has the player's
# module. Otherwise the exit status is 77, which ctest counts as skipped.
set -euo pipefail
if [[ $1 != 1 ]]; then
  echo "skipped: this build has no player's module (PLANGRAD_PLAYER needs emscripten)"
  exit 77
fi
exec "${@:2}"
