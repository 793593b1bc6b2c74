#!/usr/bin/env bash
# timeout: 120
# One job gives the same losses on any number of ranks and with any shares.
. tests/system/lib.bash
make_data
write_job j

on 0 train j.yaml --dump-losses one
is "$rc" 0 "one process, no launcher"
has out 'epoch 2/2: train loss' "it says how the epochs went"
is "$(wc -l <one)" 32 "a line for each update"

for n in 1 2 3; do
    on $n train j.yaml --dump-losses l$n
    is "$rc" 0 "$n ranks"
    close_losses one l$n 1e-5
    ok $? "$n ranks compute the same losses"
done
cmp -s one l1
ok $? "one rank with MPI is equal to the bit to no MPI"

shares() { # RANKS WEIGHTS
    on "$1" train j.yaml --set balance.mode=static --set "balance.weights=[$2]" --dump-losses l
    is "$rc" 0 "shares $2"
    close_losses one l 1e-5
    ok $? "shares $2 compute the same losses"
}
shares 2 1,3
shares 2 0,1
shares 3 1,1,2
shares 3 0,0,1

on 2 train j.yaml --set train.micro_batches=3 --dump-losses l
close_losses one l 1e-5
ok $? "three micro-batches compute the same losses"

on 2 train j.yaml --set device.backend=ref --dump-losses l
close_losses one l 1e-4
ok $? "the reference back end computes the same losses"

on 2 train j.yaml --set balance.mode=static --set 'balance.weights=[1,1,1]'
is "$rc" 2 "three weights for two ranks are refused"
has err 'balance.weights has 3 numbers, but the run has 2 ranks' "with a sentence"
is "$(grep -c '^trireme:' err)" 1 "said once"
done_testing
