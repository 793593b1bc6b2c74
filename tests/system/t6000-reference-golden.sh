#!/usr/bin/env bash
# timeout: 300
# The losses of 50 updates against PyTorch's, stored by tests/reference/parity.py --golden with the bounds that hold for them:
# the larger of 1e-4 (20 updates) and 1e-3 (50), and three times PyTorch's own drift from a change of the last bit.
root=$PWD
. tests/system/lib.bash

# worst UPTO: largest relative difference of the losses of the first updates
worst() {
    perl -MPOSIX=strtod -e '
        my ($ours, $golden, $upto) = @ARGV;
        open my $f, "<", $ours or die; my @a = map { (strtod((split)[1]))[0] } <$f>;
        open my $g, "<", $golden or die; my @b = grep { /^[\d.]/ } <$g>;
        die "$#a and $#b updates\n" if @a != @b || @a < $upto;
        my $worst = 0;
        for (0 .. $upto - 1) { my $d = abs($a[$_] - $b[$_]) / abs($b[$_]); $worst = $d if !($d <= $worst) }
        printf "%.3e\n", $worst;' losses "$golden" "$1"
}
below() { perl -e 'exit !($ARGV[0] <= $ARGV[1])' "$1" "$2"; }

for case in mlp:digits:2000 rmsprop:digits:2000 lenet:digits:2000 resnet20:images:1000 signal:digits:2000 volume:images:1000 \
    gpt:tokens:40000; do
    IFS=: read -r name kind samples <<<"$case"
    golden=$root/tests/reference/golden/$name.txt
    rm -rf runs data.h5
    trireme data synth --kind "$kind" --samples "$samples" --seed 1 --out data.h5 >/dev/null
    timeout -k 5 120 "$TRIREME" train "$root/tests/reference/cases/$name.yaml" --quiet --set device.threads=1 --dump-losses losses >out 2>err
    is $? 0 "$name trains"
    read -r _ bound20 bound50 < <(grep '^bounds' "$golden")
    below "$(worst 20)" "$bound20"
    ok $? "$name: 20 updates within $bound20 of PyTorch ($(worst 20))"
    below "$(worst 50)" "$bound50"
    ok $? "$name: 50 updates within $bound50 of PyTorch ($(worst 50))"
done
done_testing
