#!/usr/bin/env bash
# Runs examples/consumer: check_consumer.sh PROGRAM. With the shipped model it must continue the text;
# without one it must end with a message that names the file.
set -euo pipefail
program=$1
root=$(cd "$(dirname "$0")/../.." && pwd)

fail() { echo "check_consumer: $*" >&2; exit 1; }

prompt="Once upon a time"
text=$("$program" "$root/models/tinyloop-tales-16m-q4_1.gguf" "$prompt" 24)
[[ $text == "$prompt"* ]] || fail "the output does not begin with the prompt: $text"
[ ${#text} -ge $((${#prompt} + 40)) ] || fail "24 tokens gave only: $text"

status=0
message=$("$program" /no/such/model.gguf "$prompt" 2>&1) || status=$?
[ $status -eq 1 ] || fail "exit status $status for a missing model, expected 1"
[[ $message == "consumer: "*"/no/such/model.gguf: cannot open"* ]] || fail "message: $message"

status=0
message=$("$program" "$root/README.md" "$prompt" 2>&1) || status=$?
[ $status -eq 1 ] || fail "exit status $status for a file that is no model, expected 1"
[[ $message == *"magic"*"expected 'GGUF'"* ]] || fail "message: $message"
