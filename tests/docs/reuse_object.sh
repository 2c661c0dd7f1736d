#!/usr/bin/env bash
# A compiler launcher for a copy of the tree, built in COPY/build: copies the object that the build of the tree itself has,
# where that is listed in REUSABLE and was made by the same command (they are in COMMANDS); else compiles.
# usage: reuse_object.sh SOURCE BUILD COPY REUSABLE COMMANDS COMPILER ARGUMENT...
set -euo pipefail
source=$1 build=$2 copy=$3 reusable=$4 commands=$5
shift 5
there="$*"
there=${there//"$copy/build"/"$build"}
there=${there//"$copy"/"$source"}
object=${there##* -o }
object=${object%% -c *}
if grep -qxF -- "$object" "$reusable" && grep -qF -- "$there" "$commands"; then
  exec cp "$build/$object" "$object"
fi
echo "compiles ${object##*/}"
exec $(command -v ccache) "$@"
