#!/bin/sh
# Asks once and prints the answer; what went wrong goes to stderr. Needs jq.
# Usage: ask.sh "What is in README.md?"; the variables PI_RPC and JQ name other programs.
set -eu

request() { # id method params
    "${JQ:-jq}" -nc --argjson id "$1" --arg method "$2" --argjson params "$3" \
        '{jsonrpc: "2.0", id: $id, method: $method, params: $params}'
}

prompt=$("${JQ:-jq}" -nc --arg message "$*" '{message: $message}')
{
    request 0 initialize '{}'
    request 1 prompt "$prompt"
} | "${PI_RPC:-pi-rpc}" --stdio --drain | "${JQ:-jq}" -rs '
    map(select(.id == 1 or .error))[-1]
    | if . == null then "The daemon did not answer.\n" | halt_error(1)
      elif .error then "\(.error.message)\n" | halt_error(1)
      elif .result.stopReason == "stop" then .result.text
      else "\(.result.errorMessage // .result.stopReason)\n" | halt_error(1) end'
