# lib.bash: what the tests of the whole program share; source it:  . tests/system/lib.bash
# A test runs in $work, with the data sets digits.h5 (1001 samples) and valid.h5 (101) at hand.
. tests/support/tap.sh
: "${TRIREME:=$PWD/build/trireme}"
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
cd "$work" || exit 1

# trireme ARGS...: one process, never for ever
trireme() { timeout -k 5 60 "$TRIREME" "$@"; }

# on N ARGS...: on N ranks; output in out, faults in err, the code in rc
on() {
    local n=$1
    shift
    if [ "$n" = 0 ]; then
        trireme "$@" >out 2>err
    else
        timeout -k 5 60 mpirun --oversubscribe --bind-to none -n "$n" "$TRIREME" "$@" >out 2>err
    fi
    rc=$?
}

make_data() {
    trireme data synth --kind digits --samples 1001 --out digits.h5 >/dev/null &&
        trireme data synth --kind digits --samples 101 --seed 2 --out valid.h5 >/dev/null
}

# job NAME KEY=VALUE...: a job file NAME.yaml for a small network; the settings go behind it as --set
write_job() {
    cat >"$1.yaml" <<YAML
run: {name: $1, seed: 3}
data: {train: digits.h5, valid: valid.h5}
model: {preset: mlp, hidden: [32]}
train: {epochs: 2, batch: 64, optimizer: {type: sgd, lr: 0.1, momentum: 0.9}}
YAML
}

# close_losses A B TOLERANCE: two files of --dump-losses agree
close_losses() {
    perl -MPOSIX=strtod -e '
        my ($a, $b, $tol) = @ARGV;
        my @f = map { open my $h, "<", $_ or die "$_: $!\n"; [<$h>] } $a, $b;
        die "$a has " . @{$f[0]} . " lines, $b " . @{$f[1]} . "\n" if @{$f[0]} != @{$f[1]} || !@{$f[0]};
        for my $i (0 .. $#{$f[0]}) {
            my ($x, $y) = map { [split] } $f[0][$i], $f[1][$i];
            my ($l, $m) = map { (strtod($_->[1]))[0] } $x, $y;
            die "update $x->[0]: $l and $m\n" if $x->[0] != $y->[0] || !(abs($l - $m) <= $tol * abs($l));
        }' "$@"
}

# close_numbers A B TOLERANCE: two numbers agree
close_numbers() {
    perl -e 'my ($a, $b, $tol) = @ARGV; exit !($a ne "" && $b ne "" && abs($a - $b) <= $tol * abs($a))' "$@"
}

# json_lines FILE: every line is one JSON object
json_lines() {
    perl -MJSON::PP -ne 'BEGIN { $n = 0 } eval { ref decode_json($_) eq "HASH" } or die "line $.: $_"; $n++; END { exit 1 unless $n }' "$1"
}

# field FILE KIND KEY: the values of a key in the records of a kind, one a line
field() {
    perl -MJSON::PP -e '
        my ($file, $kind, $key) = @ARGV;
        open my $h, "<", $file or die "$file: $!\n";
        while (<$h>) {
            my $r = decode_json($_);
            print "$r->{$key}\n" if $r->{kind} eq $kind && defined $r->{$key};
        }' "$@"
}

# find_python MODULE: sets `python` to one that has it; empty: there is none
find_python() {
    local p
    for p in /usr/bin/python3 python3; do
        python=$p
        "$p" -c "import $1" 2>/dev/null && return
    done
    python=
    return 1
}

# needs_h5py WHAT: without it the rest of the test is skipped
needs_h5py() {
    find_python h5py && return
    ok 0 "$1 # SKIP python3-h5py is not there"
    done_testing
}

# python_says TEXT PYTHON: its lines assert what has to hold
python_says() {
    "$python" -c "
import h5py, numpy as np
$2" 2>why
    ok $? "$1"
    [ -s why ] && tail -n 3 why | sed 's/^/# /'
}

# refused RC TEXT PATTERN ARGS...: one process ends so, with one sentence
refused() {
    local want=$1 text=$2 pattern=$3
    shift 3
    on 0 "$@"
    is "$rc" "$want" "$text: refused"
    has err "^trireme: .*($pattern)" "$text: it says why"
    is "$(grep -c '^trireme: ' err)" 1 "$text: in one line"
}
