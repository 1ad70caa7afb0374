#!/usr/bin/env bash
# Builds the fuzzers and runs them: scripts/fuzz.sh [SECONDS [SEED]]. SECONDS (60) are shared among
# the targets. Starts from stress/fuzz/corpus and what earlier runs left in build/fuzz/corpus (without
# that, the same seed makes the same inputs); an input that fails is left in build/fuzz/failures and can
# be run again:
#
#   build/fuzz/stress/fuzz/fuzz_gguf_loader build/fuzz/failures/gguf_loader-crash-…
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60} seed=${2:-1}
[ "$seconds" -ge 20 ] || { echo "fuzz: SECONDS = $seconds, must be 20 or more" >&2; exit 2; }

scripts/install-deps.sh --fuzz
scripts/build.sh fuzz fuzz_gguf_loader fuzz_tokenizer fuzz_step_plan

# The limits are part of the test: a small file must not take gigabytes, or seconds.
limits=(-max_len=8192 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=512)
mkdir -p build/fuzz/failures

run() {  # TARGET SHARE-OF-THE-TIME-IN-PERCENT [OPTION …]
  local target=$1 share=$2
  shift 2
  local corpus=build/fuzz/corpus/$target log=build/fuzz/$target.log
  mkdir -p "$corpus"
  echo "fuzz: $target, $((seconds * share / 100)) s, seed $seed"
  "build/fuzz/stress/fuzz/fuzz_$target" "$corpus" "stress/fuzz/corpus/$target" "${limits[@]}" "$@" \
    -seed="$seed" -max_total_time=$((seconds * share / 100)) -print_final_stats=1 \
    -artifact_prefix="build/fuzz/failures/$target-" >"$log" 2>&1 ||
    { tail -60 "$log"; echo "fuzz: $target failed" >&2; exit 1; }
  grep -E 'DONE|executed_units|slowest_unit|peak_rss' "$log"
}

run gguf_loader 60 -dict=stress/fuzz/gguf.dict
run tokenizer 25
run step_plan 15
