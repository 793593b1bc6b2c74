#!/usr/bin/env bash
# timeout: 120
# Weights out of a run and into another: export, eval, model.init.
. tests/system/lib.bash
make_data
write_job j
on 2 train j.yaml
loss=$(field runs/j/metrics.jsonl valid loss | tail -n 1)

on 0 export runs/j --to safetensors --out w.safetensors
is "$rc" 0 "export as safetensors"
on 0 export runs/j/checkpoints/step-00000032 --to hdf5 --out w.h5
is "$rc" 0 "export as HDF5"
for w in runs/j runs/j/checkpoints/step-00000032 w.safetensors w.h5; do
    on 0 eval j.yaml $w
    is "$rc" 0 "eval of $w"
    has out "valid loss $(printf %.6f "$loss")" "gives the loss of the run"
done
on 3 eval j.yaml w.h5
has out "valid loss $(printf %.6f "$loss")" "so it does on three ranks"
is "$(perl -e 'open F, "<", "w.safetensors"; binmode F; read F, $n, 8; read F, $h, unpack "Q<", $n; print $h' |
    perl -MJSON::PP -e 'print join " ", grep { !/__/ } sort keys %{decode_json(<STDIN>)}')" \
    "fc1.bias fc1.weight fc2.bias fc2.weight" "the file has the names of the model"

on 2 train j.yaml --set model.init=w.safetensors --set train.optimizer.lr=1e-9 --set train.epochs=1 --set run.name=init
is "$rc" 0 "a run that starts from weights"
has "$(field runs/init/metrics.jsonl valid loss)" "^${loss:0:5}" "starts where they were"
on 2 train j.yaml --set model.init=w.safetensors --set 'model.hidden=[16]'
is "$rc" 2 "weights of another model are refused"
has err 'w.safetensors: 3 of 4 parameters do not fit the model: fc1.weight has shape' "with names and shapes"
on 0 eval j.yaml nothing.h5
ok $((rc == 0)) "weights that are not there are a fault"
has err 'nothing.h5' "which names the file"
on 0 info runs/j
has out 'fc1.weight +\(32,784\)' "info shows what a checkpoint holds"
has out 'all checksums hold' "and that it is whole"
done_testing
