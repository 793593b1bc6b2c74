#!/usr/bin/env bash
# timeout: 120
# train.precision: bf16 learns as fp32 does, the same on any ranks, goes on from any checkpoint, and is refused where it cannot be.
. tests/system/lib.bash
make_data
write_job j
bf16="--set train.precision=bf16"

on 0 train j.yaml --set train.precision=half
is "$rc" 2 "another precision is refused"
has err 'train.precision is half; allowed are fp32, bf16' "with what is allowed"

on 2 train j.yaml $bf16 --set device.backend=ref
is "$rc" 3 "ref refuses bf16"
has err 'train.precision is bf16: back end ref has no bfloat16: it computes in float64' "with a sentence"
has err 'hint: .*train.precision=fp32' "and a hint"
is "$(grep -c '^trireme:' err)" 1 "said once"

ONEDNN_MAX_CPU_ISA=AVX2 on 0 train j.yaml $bf16
is "$rc" 3 "a processor without bfloat16 refuses bf16"
has err 'this processor does not multiply in bfloat16' "with a sentence"

on 0 train j.yaml $bf16
if [ "$rc" = 3 ]; then
    echo "# the rest is left out: $(sed -n 's/^trireme: //p' err)"
    done_testing
fi
rm -rf runs

on 0 train j.yaml --dump-losses fp32
on 0 train j.yaml $bf16 --set checkpoint.every=10 --set checkpoint.keep=0 --dump-losses one
is "$rc" 0 "bf16, one process"
! close_losses fp32 one 1e-6 2>/dev/null
ok $? "does not compute what fp32 does"
close_losses fp32 one 0.05
ok $? "but nearly"
on 0 train j.yaml $bf16 --dump-losses again
cmp -s one again
ok $? "two runs are equal to the bit"
for n in 1 2 3; do
    on $n train j.yaml $bf16 --dump-losses l$n
    close_losses one l$n 1e-3
    ok $? "$n ranks compute the same losses"
done
on 3 train j.yaml $bf16 --set balance.mode=static --set 'balance.weights=[1,0,2]' --dump-losses l
close_losses one l 1e-3
ok $? "shares 1,0,2 compute the same losses"
on 2 train j.yaml $bf16 --set train.micro_batches=3 --dump-losses l
close_losses one l 1e-3
ok $? "three micro-batches compute the same losses"

tail_of() { awk -v from="$2" '$1 > from' "$1"; }
cut_at() { # as if it had been killed behind update 10
    for d in runs/"$1"/checkpoints/step-*; do [ "$((10#${d##*-}))" -le 10 ] || rm -r "$d"; done
}
rm -rf runs
on 0 train j.yaml $bf16 --set checkpoint.every=10 --set checkpoint.keep=0 --dump-losses whole
cut_at j
on 0 train j.yaml $bf16 --set checkpoint.every=10 --set checkpoint.keep=0 --resume --dump-losses rest
tail_of whole 10 | cmp -s - rest
ok $? "resumes equal to the bit: checkpoints are float32"
cut_at j
on 2 train j.yaml --set checkpoint.every=10 --resume --dump-losses rest
is "$rc" 0 "resumes in fp32"
tail_of whole 10 >want
close_losses want rest 0.05
ok $? "near the losses of bf16"

last=runs/j/checkpoints/step-00000032
on 0 eval j.yaml $last $bf16
is "$rc" 0 "eval in bf16"
cp out eval.bf16
on 0 eval j.yaml $last
! cmp -s out eval.bf16
ok $? "takes the job's precision"
done_testing
