#!/usr/bin/env bash
# timeout: 600
# Damaged and odd files of many kinds: each gets its verdict, in one sentence; and as files of strangers none of them ends
# otherwise than by a verdict.
top=$PWD
. tests/system/lib.bash

needs_h5py "damaged files"
"$python" "$top/tests/system/make_damage.py" set >list
ok $? "$(wc -l <list) files are made"

# verdict_of ARGS...: how `data check` ends: accept, warn, reject, or what it should never be
verdict_of() {
    on 0 data check --input data --target label --classes 10 "$@"
    case $rc in
    0) if grep -q 'warning:' err; then got=warn; else got=accept; fi ;;
    2) got=reject ;;
    *) got="code $rc" ;;
    esac
}
faults() { grep -vE '^hint: |: warning: ' err; }

while IFS=$'\t' read -r name verdict pattern words; do
    at=set/$name
    [ "${name#@}" = "$name" ] || at=@set/${name#@}
    if [ -n "$words" ]; then
        # shellcheck disable=SC2086 # words of an option
        on 0 data check $words "$at"
        got=accept
        [ "$rc" = 0 ] || got="code $rc"
    else
        verdict_of "$at"
    fi
    if [ "$verdict" = 'accept|reject' ]; then verdict=$got; fi
    [ "$got" = "$verdict" ] && { [ "$got" = accept ] || grep -qE -- "$pattern" err; }
    right=$?
    [ "$verdict" = reject ] && [ "$(faults | wc -l)" != 1 ] && right=1
    ok $right "$name: $verdict"
    [ $right = 0 ] || { echo "# $got, /$pattern/"; sed 's/^/#   /' err; }
done <list

# The same as files of strangers: refused or read, never another end.
while IFS=$'\t' read -r name verdict pattern words; do
    [ -z "$words" ] || continue
    at=set/$name
    [ "${name#@}" = "$name" ] || at=@set/${name#@}
    verdict_of --untrusted "$at"
    case $got in accept | reject | warn) right=0 ;; *) right=1 ;; esac
    [ "$rc" = 2 ] && [ "$(faults | wc -l)" != 1 ] && right=1
    ok $right "$name, untrusted: $got"
    [ $right = 0 ] || sed 's/^/#   /' err
done <list
done_testing
