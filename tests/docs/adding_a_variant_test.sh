#!/usr/bin/env bash
# Follows docs/adding-a-variant.md to the letter in a copy of the tree, and checks what comes out.
# usage: adding_a_variant_test.sh SOURCE BUILD SCRATCH CUDA(0|1)
#
# A code block whose fence reads "LANGUAGE FILE" is that file; `LANGUAGE FILE after "LINE"` (or before) is inserted
# after (before) the first such line of it; "sh" is run, "sh needs-cuda" only where the build has CUDA. What BUILD, a
# build of SOURCE by Ninja, has compiled already is not compiled again where the page changes nothing that it depends on.
set -euo pipefail
source=$(realpath "$1") build=$(realpath "$2") scratch=$3 cuda=$4
rm -rf "$scratch"
mkdir -p "$scratch"/{tree/build,blocks}
scratch=$(realpath "$scratch")
tree=$scratch/tree blocks=$scratch/blocks
die() {
  echo "adding_a_variant: $*" >&2
  exit 1
}

# The tree's sources; without git (an archive) what a build needs. With their times, to the nanosecond.
sources() {
  git -c safe.directory='*' ls-files -z --cached --others --exclude-standard 2>/dev/null ||
    find CMakeLists.txt CMakePresets.json cmake kernels variants harness bench tests -type f -print0
}
(cd "$source" && sources | tar --format=posix --null --files-from=- --ignore-failed-read -cf - 2>/dev/null) |
  tar -xf - -C "$tree"

# The page's code blocks: blocks/NN.info holds the fence, blocks/NN.text the code.
awk -v folder="$blocks" '
  /^```/ && !inside { inside = 1; name = sprintf("%s/%02d", folder, ++n)
                      print substr($0, 4) > (name ".info"); printf "" > (name ".text"); next }
  /^```/ { inside = 0; close(name ".text"); next }
  inside { print > (name ".text") }' "$source/docs/adding-a-variant.md"

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

# The objects of BUILD that serve the copy as well, by make's rule: what they depend on is there, and none of it newer.
# What is generated is not there yet.
ninja -n -C "$build" -t commands warptune >"$scratch/commands"
ninja -n -C "$build" -t deps | while IFS= read -r line; do
  case $line in
    *'(VALID)') object=${line%%: *} files=() ;;
    *'(STALE)') object='' ;;
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

grep -q grid_stride "$log" || die "the CUDA variant is not listed"
grep -q host_lanes "$log" || die "the host variant is not listed"
rows=("$tree"/out/*/try.csv)
[[ -f ${rows[0]} ]] || die "tune wrote no CSV"
ok=$(grep ',host_lanes,.*,ok,' "${rows[0]}" | grep -vc ',ok,finalist' || true)
# 2 token counts x 2 dtypes x 3 configurations
((ok == 12)) || die "$ok rows of host_lanes are ok, not 12: ${rows[0]}"
! grep ',host_lanes,' "${rows[0]}" | grep -qv ',ok,' || die "a row of host_lanes is not ok: ${rows[0]}"
echo "adding_a_variant: the page holds: $ok rows of host_lanes are ok"
