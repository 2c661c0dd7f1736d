#!/usr/bin/env bash
# A compiler launcher for a copy of the tree that is built in COPY/build. Copies the object from BUILD, the build of the
# tree itself, if REUSABLE lists it and COMMANDS holds the same compile command; compiles otherwise.
# usage: reuse_object.sh SOURCE BUILD COPY REUSABLE COMMANDS COMPILER ARGUMENT...
set -euo pipefail
source=$1 build=$2 copy=$3 reusable=$4 commands=$5
shift 5
there="$*"
there=${there//"$copy/build"/"$build"}
there=${there//"$copy"/"$source"}
object=${there##* -o }
object=${object%% -c *}
# A file of the build that includes a group of sources must name the same ones.
same_group() {
  [[ ${1##*/} != unity_* ]] || cmp -s <(sed "s,$copy,$source,g" "$1") "${1/#"$copy/build"/"$build"}"
}
if grep -qxF -- "$object" "$reusable" && same_group "${!#}" && grep -qF -- "$there" "$commands"; then
  exec cp "$build/$object" "$object"
fi
echo "compiles ${object##*/}"
exec $(command -v ccache) "$@"
