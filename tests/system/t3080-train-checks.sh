#!/usr/bin/env bash
# timeout: 60
# What train refuses, check refuses too; and what happens within an epoch is said.
. tests/system/lib.bash
make_data
write_job j

refused() { # TEXT SENTENCE SETTINGS...
    local text=$1 sentence=$2 command
    shift 2
    for command in check train; do
        on 0 $command j.yaml "$@"
        is "$rc" 2 "$command refuses $text"
        has err "$sentence" "with a sentence"
    done
}
refused "numbers beyond float32" 'data.scale is 1e\+300; allowed are numbers from' --set data.scale=1e300
refused "a deviation of nothing" 'data.std is 1e-40; allowed are' --set data.std=1e-40
refused "a mean beyond float32" 'data.mean is 1e\+308; allowed are' --set data.mean=1e308
trireme data synth --kind images --samples 20 --out images.h5 >/dev/null
refused "validation samples of another shape" "images.h5: 'data' samples are .3,32,32., the model expects .1,28,28." --set data.valid=images.h5
refused "weights that are none" 'digits.h5' --set model.init=digits.h5
on 0 check j.yaml --set model.init=nothing.safetensors
is "$rc" 2 "check refuses weights that are not there"
has err 'nothing.safetensors' "and names them"
on 0 check j.yaml --set data.mean=0
is "$rc" 0 "a mean of 0 is allowed"

on 0 train j.yaml --set train.valid_every='6 updates'
is "$rc" 0 "validates within an epoch"
has out 'update 6/32  valid loss [0-9.]+, accuracy' "which is said when it happens"
is "$(grep -c 'valid loss' out)" 6 "each time once"

on 0 train j.yaml --set run.name=large --set train.batch=5000
is "$(field runs/large/metrics.jsonl epoch ranks | wc -l)" 2 "a batch larger than the data trains"
has runs/large/metrics.jsonl '"share": ?1001' "and its share is what there is"
done_testing
