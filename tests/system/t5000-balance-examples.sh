#!/usr/bin/env bash
# timeout: 180
# The example programs that balance themselves: moves, forced and measured, never change what is computed.
. tests/support/tap.sh
: "${OUT:=$PWD/build}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$work" || exit 1

# on N PROGRAM ARGS...: output in out, faults in err, the code in rc
on() {
    local n=$1 program=$2
    shift 2
    ranks "$n" timeout -k 5 60 "$OUT/examples/$program" "$@" >out 2>err
    rc=$?
}

# value FILE KEY: of one line of JSON
value() { perl -MJSON::PP -e '
    my ($file, $key) = @ARGV;
    open my $h, "<", $file or die;
    my $v = decode_json(<$h>)->{$key};
    print ref $v ? "@$v" : $v' "$@"; }

# Shares of the ranks that add up to a whole.
whole() { [ "$(value out shares | tr ' ' '\n' | awk '{ n += $1 } END { print n }')" = "$1" ]; }

for n in 1 2 3; do
    on $n heat2d --size 101 --steps 200 --every 7 --force --check --json
    is "$rc" 0 "heat2d on $n ranks, with rows moved at random" || cat err
    is "$(value out moves)" 28 "they moved at every decision"
    is "$(value out check)" "equal to the bit" "the plate is equal to the bit to that of one rank alone"
    whole 101
    ok $? "every row has one owner"
done

on 3 heat2d --size 2 --steps 50 --every 3 --force --check --json
is "$(value out check)" "equal to the bit" "fewer rows than ranks"
on 2 heat2d --size 64 --steps 100 --off --check --json
is "$(value out check)/$(value out moves)/$(value out shares)" "equal to the bit/0/32 32" "off: equal parts, no move"

# A rank that does its work four times over: the others get rows. Only so long as to be seen.
on 2 heat2d --size 300 --steps 20000 --slow 1 --times 4 --check
is "$rc" 0 "a slow rank"
has err 'rank 1 is .* slower; [0-9]+ items moved, saves' "a line says what moved and why"
has out 'equal to the bit' "the plate is the same"

on 1 kmeans --file points.h5 --make 5000
is "$rc" 0 "kmeans makes its own data"
for n in 1 2 3; do
    on $n kmeans --file points.h5 --iterations 30 --every 4 --force --check --json
    is "$rc" 0 "kmeans on $n ranks, with rows moved at random" || cat err
    is "$(value out moves)" 7 "they moved at every decision"
    has out 'assignments equal, centres within' "assignments are those of one rank alone"
    whole 5000
    ok $? "every row has one owner"
done

for program in heat2d kmeans; do
    on 1 $program --help
    is "$rc" 0 "$program --help"
    has out '--every' "tells the options"
    on 2 $program --bogus
    is "$rc" 2 "$program refuses an unknown option"
    is "$(grep -c "$program: unknown option '--bogus'" err)" 1 "with a sentence, said once"
    on 1 $program --every 0
    is "$rc" 2 "$program refuses a wrong value"
    on 1 $program --every
    has err '--every needs a value' "and a missing one"
done
on 1 kmeans --file none.h5
is "$rc" 2 "a file that is not there"
has err "'none.h5' has no data set 'x'" "is named"
done_testing
