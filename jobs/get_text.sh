#!/usr/bin/env bash
# Makes a clean text file of about 40 MB of English from Debian's package dict-gcide (the Collaborative International Dictionary of
# English, GPL), and prints its path:
#
#   jobs/get_text.sh [FILE]          FILE is runs/data/gcide.txt unless given
#   GCIDE=PATH jobs/get_text.sh      takes PATH (gcide.dict.dz) where the package is not installed, and copies are brought by hand
#
# Entries are separated by two empty lines (tokenize with --separator '\n\n\n' to make a document of each), paragraphs by one.
# The text is UTF-8. What is already there is not made again.
set -euo pipefail
text=${1:+$(realpath -m -- "$1")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

text=${text:-runs/data/gcide.txt}
if [ -s "$text" ]; then
  echo "$text"
  exit 0
fi

source=${GCIDE:-$(dpkg -L dict-gcide 2>/dev/null | grep '/gcide\.dict\.dz$' || true)}
if [ ! -r "$source" ]; then
  echo "get_text: no dictionary (${source:-dict-gcide is not installed}); apt-get install dict-gcide, or set GCIDE=PATH of gcide.dict.dz" >&2
  exit 1
fi

mkdir -p "$(dirname "$text")"
trap 'rm -f "$text.tmp"' EXIT
# A few bytes are not UTF-8: single Latin ones between two letters. An entry starts in the first column, after
# an empty line.
gzip -dc <"$source" |
  LC_ALL=C sed -e 's/\([a-z]\)[\x92\xb9]\([a-z]\)/\1’\2/g' -e 's/\([a-z]\)\xe7\([a-z]\)/\1ç\2/g' |
  LC_ALL=C awk '/^[^ \t]/ && empty { print "" } { empty = ($0 == ""); print }' >"$text.tmp"
sync "$text.tmp"
mv "$text.tmp" "$text"
echo "$text"
