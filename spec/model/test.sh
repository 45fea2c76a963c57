#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the model in the folder $1, compares its mutants with the table of README.md, explores everything small.
# The last line is "N passed, N failed".
set -eu
here=$(dirname "$0")
mkdir -p "$1"
"${CXX:-c++}" -std=c++17 -O2 -Wall -Wextra -Werror -o "$1/flyring-model" "$here/model.cpp" "$here/explorer.cpp"
"$1/flyring-model" --table > "$1/table-of-program"
grep '^| [56]\.' "$here/README.md" > "$1/table-of-readme"
diff "$1/table-of-readme" "$1/table-of-program" || { echo "README.md and mutants.hpp differ: paste what --table prints"; exit 1; }
exec "$1/flyring-model"
