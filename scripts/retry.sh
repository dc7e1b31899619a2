#!/bin/sh
# Run a command up to three times: for installs, where a registry's hiccup should fail nothing.
attempt=1
until "$@"; do
    status=$?
    [ "$attempt" -ge 3 ] && exit "$status"
    echo "retry.sh: attempt $attempt of 3 failed (exit $status), trying again in $((attempt * 5)) s: $*" >&2
    sleep $((attempt * 5))
    attempt=$((attempt + 1))
done
