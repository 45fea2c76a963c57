#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the model in the folder $1, compares its mutants with the table of README.md, explores everything small, or
# only --part K/N: every N-th scenario and mutant, from number K on.
# The last line is "N passed, N failed".
set -eu
here=$(dirname "$0")
build=$1
shift
mkdir -p "$build"
"${CXX:-c++}" -std=c++17 -O2 -Wall -Wextra -Werror -o "$build/flyring-model" "$here/model.cpp" "$here/explorer.cpp" "$here/wait.cpp" \
    "$here/queue.cpp" "$here/queue_wait.cpp" "$here/service.cpp" "$here/table.cpp" "$here/table_pages.cpp" \
    "$here/journal.cpp"
"$build/flyring-model" --table > "$build/table-of-program"
grep -E '^\| ([56]\.|queue |service |table |journal )' "$here/README.md" > "$build/table-of-readme"
diff "$build/table-of-readme" "$build/table-of-program" || { echo "README.md and the program differ: paste what --table prints"; exit 1; }
exec "$build/flyring-model" "$@"
