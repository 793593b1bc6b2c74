#!/usr/bin/env bash
# timeout: 180
# shuffle: window from a compressed file that is not kept in memory: one order on any ranks, before and after a resume.
. tests/system/lib.bash
trireme data synth --kind images --samples 1500 --chunk 100 --deflate 1 --out images.h5 >/dev/null
cat >w.yaml <<'YAML'
run: {name: w, seed: 3}
data: {train: images.h5, cache: off, shuffle: window, memory: 4 MiB}
model: {preset: mlp, hidden: [16]}
train: {epochs: 2, batch: 64, optimizer: {type: sgd, lr: 0.05, momentum: 0.9}}
checkpoint: {every: 10, keep: 0}
YAML

on 0 train w.yaml --dump-losses one
is "$rc" 0 "trains from a file in chunks"
has out '15 blocks of 100, shuffled in [0-9]+ lanes of 1 block' "and says how it is shuffled"
for ranks in 2 3; do
    on "$ranks" train w.yaml --set run.name=w"$ranks" --dump-losses more
    close_losses one more 5e-5
    ok $? "the same losses on $ranks ranks"
done
on 0 train w.yaml --set run.name=t --set data.threads=3 --dump-losses threads
cmp -s one threads
ok $? "and to the bit with more threads"
on 0 train w.yaml --set run.name=c --set data.cache=on --dump-losses kept
cmp -s one kept
ok $? "and where the data is kept in memory"
on 2 train w.yaml --set run.name=n --set data.cache=node --dump-losses node
close_losses one node 5e-5
ok $? "once on the node"
on 2 train w.yaml --set run.name=r --set data.cache=rank --dump-losses rank
cmp -s node rank
ok $? "and to the bit where each rank keeps its own"
TRIREME_COMM=mpi on 2 train w.yaml --set run.name=m --set data.cache=node --dump-losses apart
has err "'data' .* does not fit into the memory that ranks share" "where ranks share no memory one line says so"
close_losses one apart 5e-5
ok $? "and each rank keeps its own"

cut_at() { # UPDATE: as if the run had been killed behind this update
    for d in runs/w/checkpoints/step-*; do
        [ "$((10#${d##*-}))" -le "$1" ] || rm -r "$d"
    done
}
cut_at 30
on 0 train w.yaml --resume --dump-losses rest
awk '$1 > 30' one | cmp -s - rest
ok $? "a resume within an epoch goes on to the bit"
cut_at 30
on 2 train w.yaml --resume --dump-losses rest
awk '$1 > 30' one >want
close_losses want rest 5e-5
ok $? "on two ranks too"
cut_at 30
on 0 train w.yaml --resume --set data.memory=1MiB
is "$rc" 2 "another memory within an epoch is refused"
has err 'cannot resume: .*(window|lanes)' "with a sentence"
sed "s/, shuffle: window, memory: 4 MiB//" w.yaml >e.yaml
on 0 train e.yaml --resume
is "$rc" 2 "another order within an epoch is refused"
has err 'data.shuffle window, the job has exact' "with a sentence"

on 0 data order w.yaml --epoch 2
is "$(sort -n out | md5sum)" "$(seq 0 1499 | md5sum)" "data order prints the order of a job: each sample once"
cp out second
on 0 data order w.yaml --epoch 1
cmp -s out second
[ $? = 1 ]
ok $? "another one in each epoch"

on 0 train e.yaml --set data.cache_limit=1MiB --set data.cache=auto --set run.name=e
has err 'data.shuffle: window' "what is slow in exact order says what is made for it"
# More files than may be open at a time.
mkdir shards
for i in $(seq 100 179); do trireme data synth --kind images --samples 20 --seed "$i" --out "shards/$i.h5" >/dev/null; done
sed 's/images.h5/"shards\/*.h5"/' w.yaml >window.yaml
sed 's/images.h5/"shards\/*.h5"/' e.yaml >exact.yaml
for how in window exact; do
    (ulimit -n 64 && on 0 train $how.yaml --set run.name=$how && exit "$rc")
    ok $? "80 files with 64 descriptors, $how"
done
done_testing
