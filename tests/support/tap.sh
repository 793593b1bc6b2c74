# shellcheck shell=bash
# tap.sh: for tests in shell; source it:  . tests/support/tap.sh
# Tests run in the root of the tree; $TRIREME is the command, $work a folder that goes away at the end.
tap_count=0
tap_failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# ok CONDITION-STATUS TEXT, as in: grep -q x file; ok $? "x is there"
ok() {
    tap_count=$((tap_count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_count - $2"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $2"
    fi
}

# is GOT WANT TEXT
is() {
    [ "$1" = "$2" ]
    ok $? "$3"
    [ "$1" = "$2" ] || printf '# got:    %s\n# wanted: %s\n' "$1" "$2"
}

# has TEXT-OR-FILE PATTERN TEXT: an extended regular expression is found
has() {
    if [ -f "$1" ]; then grep -qE -- "$2" "$1"; else grep -qE -- "$2" <<<"$1"; fi
    local found=$?
    ok $found "$3"
    [ $found -eq 0 ] || { echo "# no '$2' in:"; if [ -f "$1" ]; then cat "$1"; else echo "$1"; fi | sed 's/^/#   /'; }
}

# ranks N COMMAND...: mpirun with more ranks than cores
ranks() {
    local n=$1
    shift
    mpirun --oversubscribe --bind-to none -n "$n" "$@"
}

# The plan comes last; call it as the last line.
done_testing() {
    echo "1..$tap_count"
    exit $((tap_failed > 0))
}
