#!/usr/bin/env bash
# Follows a page of docs/ literally in a copy of the tree, and checks the result.
# usage: follow_page.sh PAGE SOURCE BUILD SCRATCH CUDA(0|1) EXPECTED...
#
# PAGE is relative to SOURCE. The fence of a code block says what happens to the block:
#   LANGUAGE FILE                 the block becomes that file, which must not exist
#   LANGUAGE FILE after "LINE"    the block is inserted after the first such line of that file (or `before` it)
#   sh                            the block is run in the copy
#   sh needs-cuda                 the same, only where the build has CUDA
# EXPECTED is a word that the commands must print, or VARIANT=ROWS: try.csv has ROWS rows of VARIANT, all of them ok.
#
# BUILD is a Ninja build of SOURCE. Its objects serve the copy wherever the page changes nothing that they depend on.
set -euo pipefail
page=$1 source=$(realpath "$2") build=$(realpath "$3") scratch=$4 cuda=$5
shift 5
rm -rf "$scratch"
mkdir -p "$scratch"/{tree/build,blocks}
scratch=$(realpath "$scratch")
tree=$scratch/tree blocks=$scratch/blocks
die() {
  echo "$page: $*" >&2
  exit 1
}

# Copies the sources with their modification times to the nanosecond. Without git (an archive): what a build needs.
sources() {
  git -c safe.directory='*' ls-files -z --cached --others --exclude-standard 2>/dev/null ||
    find CMakeLists.txt CMakePresets.json cmake kernels variants harness cli bench tests -type f -print0
}
(cd "$source" && sources | tar --format=posix --null --files-from=- --ignore-failed-read -cf - 2>/dev/null) |
  tar -xf - -C "$tree"

# The page's code blocks: blocks/NN.info holds the fence, blocks/NN.text the code.
awk -v folder="$blocks" '
  /^```/ && !inside { inside = 1; name = sprintf("%s/%02d", folder, ++n)
                      print substr($0, 4) > (name ".info"); printf "" > (name ".text"); next }
  /^```/ { inside = 0; close(name ".text"); next }
  inside { print > (name ".text") }' "$source/$page"

insert() { # FILE after|before LINE TEXT-FILE
  grep -qxF -- "$3" "$1" || die "$1 has no line '$3'"
  awk -v side="$2" -v line="$3" -v text="$4" '
    side == "after" { print }
    $0 == line && !done { while ((getline more < text) > 0) print more; done = 1 }
    side == "before" { print }' "$1" >"$1.new"
  mv "$1.new" "$1"
}

for info in "$blocks"/*.info; do
  text=${info%.info}.text
  read -r language file rest <"$info" || true
  [[ $language == sh || -z ${file-} ]] && continue
  if [[ ${rest-} =~ ^(after|before)\ \"(.*)\"$ ]]; then
    insert "$tree/$file" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "$text"
  else
    [[ ! -e $tree/$file ]] || die "$file exists already"
    mkdir -p "$(dirname "$tree/$file")"
    cp "$text" "$tree/$file"
  fi
done

# Lists the objects of BUILD that serve the copy as well, by make's rule: all dependencies exist and none is newer.
# Generated headers do not exist yet, so what depends on them is compiled.
ninja -n -C "$build" -t commands >"$scratch/commands"
ninja -n -C "$build" -t deps | while IFS= read -r line; do
  case $line in
    *'(VALID)') object=${line%%: *} files=() ;;
    *'(STALE)') object='' ;;
    '    '*/Unity/*) ;; # reuse_object.sh compares them; the path is relative where the object is from ccache
    "    $build/"*) files+=("$tree/build/${line#"    $build/"}") ;;
    "    $source/"*) files+=("$tree/${line#"    $source/"}") ;;
    '    /'*) files+=("${line#    }") ;;
    '    '*) files+=("$tree/build/${line#    }") ;;
    '') if [[ -n $object && -z $(find "${files[@]}" -newer "$build/$object" 2>&1) ]]; then echo "$object"; fi ;;
  esac
done >"$scratch/reusable"
launcher=("$source/tests/docs/reuse_object.sh" "$source" "$build" "$tree" "$scratch/reusable" "$scratch/commands")
CMAKE_CXX_COMPILER_LAUNCHER=$(IFS=';' && echo "${launcher[*]}")
export CMAKE_CXX_COMPILER_LAUNCHER

# The page's commands.
log=$scratch/log
: >"$log"
for info in "$blocks"/*.info; do
  read -r language needs <"$info" || true
  [[ $language == sh ]] || continue
  [[ ${needs-} == needs-cuda && $cuda == 0 ]] && continue
  (cd "$tree" && bash -euo pipefail -x "${info%.info}.text") 2>&1 | tee -a "$log"
done

rows=("$tree"/out/*/try.csv)
[[ -f ${rows[0]} ]] || die "tune wrote no CSV"
for expected in "$@"; do
  if [[ $expected != *=* ]]; then
    grep -qF -- "$expected" "$log" || die "the commands do not print '$expected'"
    continue
  fi
  variant=${expected%=*}
  ok=$(grep ",$variant,.*,ok," "${rows[0]}" | grep -vcE ',(finalist|other_cache),' || true)
  ((ok == ${expected#*=})) || die "$ok rows of $variant are ok, not ${expected#*=}: ${rows[0]}"
  ! grep ",$variant," "${rows[0]}" | grep -qv ',ok,' || die "a row of $variant is not ok: ${rows[0]}"
done
echo "$page: the page holds: $*"
