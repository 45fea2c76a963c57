#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One million inputs: million.sh FUZZER GOLDEN-CORPUS [RUNS]. Findings stay in the working folder (crash-*, timeout-*),
# and so does the corpus, from which the next run continues. The last line counts inputs and findings.
set -u
fuzzer=$1 golden=$2 runs=${3:-1000000}
files=$((runs / 50)) # whole files are large, so most runs are programs
mkdir -p corpus corpus-files
done=0
found=0
run() { # run RUNS ARGUMENT...
    wanted=$1
    shift
    "$fuzzer" -runs="$wanted" -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 "$@" > fuzz.log 2>&1 || {
        found=$((found + 1))
        grep -E 'ERROR|FOUND|SUMMARY|Test unit written' fuzz.log
    }
    sed -n 's/^stat::/    /p' fuzz.log
    done=$((done + $(sed -n 's/^stat::number_of_executed_units: //p' fuzz.log || echo 0)))
}
echo "whole files, from the golden ones"
run "$files" -max_len=100000 corpus-files "$golden"
echo "changes to golden files, and programs"
run $((runs - files)) -max_len=256 corpus
echo "$done inputs, $found findings"
[ "$found" = 0 ] && [ "$done" -ge "$runs" ]
