#!/usr/bin/env bash
# timeout: 300
# Inference: every row in its order, the same numbers on any number of ranks, and never half a file.
# shellcheck disable=SC2086 # options are words
. tests/system/lib.bash
make_data
trireme data synth --kind tokens --samples 2000 --out tokens.h5 >/dev/null
trireme data synth --kind images --samples 20 --out images.h5 >/dev/null
write_job mlp
cat >lenet.yaml <<'YAML'
run: {name: lenet}
data: {train: digits.h5, valid: valid.h5}
model: lenet
train: {updates: 3, batch: 32, optimizer: {type: sgd, lr: 0.01}}
YAML
cat >gpt.yaml <<'YAML'
run: {name: gpt}
data: {train: tokens.h5, valid: tokens.h5, window: 16}
model: {preset: gpt, layers: 1, dim: 16, heads: 2}
train: {updates: 2, batch: 8, optimizer: {type: adamw, lr: 0.001}}
YAML

find_python h5py

# near A B TOLERANCE: the outputs of two files agree, as a part of the norm of a row.  Without h5py, and more loosely: the words of
# two files of one layout that differ are floats that are close.
near() {
    if [ -n "$python" ]; then
        "$python" -c '
import h5py, numpy as np, sys
a, b = (h5py.File(f, "r")["output"][:].astype(float) for f in sys.argv[1:3])
a, b = (x.reshape(len(x), -1) for x in (a, b))
worst = (abs(a - b).max(1) / np.linalg.norm(a, axis=1)).max()
sys.exit(not worst <= float(sys.argv[3]) and f"# {worst} of the norm")' "$@"
        return
    fi
    perl -e 'my ($a, $b, $tol) = @ARGV;
        my ($x, $y) = map { open my $h, "<:raw", $_ or die "$_: $!\n"; local $/; <$h> } $a, $b;
        exit 1 if length $x != length $y || length $x < 800;
        my @x = unpack "f<*", $x; my @y = unpack "f<*", $y;
        for (0 .. $#x) {
            next if substr($x, 4 * $_, 4) eq substr($y, 4 * $_, 4);
            exit 1 unless abs($x[$_] - $y[$_]) <= 10 * $tol * (1 + abs $x[$_]);
        }' "$@"
}
# holds FILE PERL: the file holds these float32 numbers, one behind the other
holds() {
    perl -e 'my ($file, $list) = @ARGV; my @n = eval $list;
        open my $h, "<:raw", $file or die; local $/; exit !(index(<$h>, pack "f<*", @n) >= 0)' "$@"
}
beside() { find . -name '*.new-*' | wc -l; }

# ---- the same on 1, 2, 3 ranks ----

for model in mlp lenet gpt; do
    on 0 train $model.yaml --quiet
    is "$rc" 0 "$model: a run"
    on 0 predict $model.yaml --weights runs/$model --out $model.h5
    is "$rc" 0 "$model: predict"
    [ "$rc" = 0 ] || cat err
    # 2,000 tokens hold 125 windows of 16; without targets the last one counts.
    rows=101
    [ $model = gpt ] && rows=125
    has out "wrote $model.h5: $rows rows in .* rows/s" "$model: the closing line"
    on 0 export runs/$model --to safetensors --out $model.safetensors
    for n in 2 3; do
        on $n predict $model.yaml --weights $model.safetensors --out $model$n.h5
        is "$rc" 0 "$model: predict on $n ranks, from safetensors"
        [ "$rc" = 0 ] || cat err
        near $model.h5 $model$n.h5 1e-6
        ok $? "$model: the same numbers on $n ranks"
    done
    # Slices of eight rows on each: the same to the bit.
    part="--set data.valid_rows=0:96"
    [ $model = gpt ] && part="--set data.valid_rows=0:1536"
    on 0 predict $model.yaml --weights runs/$model --out even1.h5 --force $part --set train.batch=8
    has out '96 rows' "$model: some of the rows"
    for n in 2 3; do
        on $n predict $model.yaml --weights runs/$model --out even$n.h5 --force $part --set train.batch=$((8 * n))
        cmp even1.h5 even$n.h5
        ok $? "$model: equal to the bit on $n ranks where slices are equal"
    done
done
on 0 predict lenet.yaml --weights runs/lenet --out ref.h5 --set device.backend=ref
near lenet.h5 ref.h5 1e-5
ok $? "the reference back end agrees"
is "$(beside)" 0 "nothing is left beside"

# ---- order ----

# rows FROM TO FILE: images of two pixels that tell their number, high byte and low byte
rows() {
    perl -e 'my ($from, $to) = @ARGV; my $n = $to - $from;
        open my $i, ">:raw", "images.idx"; print $i pack("C4 N3", 0, 0, 8, 3, $n, 1, 2), map { pack "n", $_ } $from .. $to - 1;
        open my $l, ">:raw", "labels.idx"; print $l pack("C4 N", 0, 0, 8, 1, $n), "\1" x $n;' "$1" "$2"
    trireme data import mnist --images images.idx --labels labels.idx --out "$3" >/dev/null
}
# weights FILE NAME SHAPE NUMBERS BIAS-SHAPE NUMBERS
weights() {
    perl -e 'my ($file, $name, $ws, $w, $bs, $b) = @ARGV; my $n = 4 * split /,/, $w; my $m = $n + 4 * split /,/, $b;
        my $head = qq({"$name.weight":{"dtype":"F32","shape":[$ws],"data_offsets":[0,$n]},)
                 . qq("$name.bias":{"dtype":"F32","shape":[$bs],"data_offsets":[$n,$m]}});
        open my $h, ">:raw", $file; print $h pack("Q<", length $head), $head, pack "f<*", split(/,/, $w), split(/,/, $b);' "$@"
}
rows 0 301 rows.h5
rows 301 400 more.h5
weights number.safetensors linear1 1,2 256,1 1 0
# No training set is needed: nothing is left open.
cat >number.yaml <<'YAML'
data: {train: nosuch.h5, valid: rows.h5, target_type: float, scale: 1}
model: {layers: [flatten, linear: 1]}
train: {epochs: 1, batch: 16, loss: mse, optimizer: {type: sgd, lr: 0.1}}
YAML
for n in 0 2 3; do
    on $n predict number.yaml --weights number.safetensors --out n.h5 --force
    is "$rc" 0 "rows that tell their number, $n ranks"
    [ "$rc" = 0 ] || cat err
    holds n.h5 '0 .. 300'
    ok $? "come out in their order"
done
on 3 predict number.yaml --weights number.safetensors --out two.h5 --input rows.h5 --input more.h5
has out 'wrote two.h5: 400 rows' "two files"
holds two.h5 '0 .. 399'
ok $? "are read one behind the other"
on 0 predict number.yaml --weights number.safetensors --out two.h5 --input more.h5 --force --set data.valid_rows=0:5
has out 'wrote two.h5: 99 rows' "the rows of data.valid are not those of --input"
holds two.h5 '301 .. 399'
ok $? "and --force replaced the file"
on 0 data info n.h5
has out 'output +float32 \(301,1\)' "numbers to regress: the output"
grep -q label out
ok $((! $?)) "and no label"
# n.h5 has no targets at all
cat >bare.yaml <<'YAML'
data: {train: n.h5, valid: n.h5, input: output, target_type: float}
model: {layers: [linear: 2]}
train: {epochs: 1, batch: 16, loss: mse, optimizer: {type: sgd, lr: 0.1}}
YAML
weights bare.safetensors linear1 2,1 1,-1 2 0,0
on 0 eval bare.yaml bare.safetensors
is "$rc" 2 "eval needs targets"
for n in 0 3; do
    on $n predict bare.yaml --weights bare.safetensors --out b.h5 --force
    is "$rc" 0 "predict needs none, $n ranks"
    holds b.h5 'map { ($_, -$_) } 0 .. 300'
    ok $? "its numbers"
done
weights nan.safetensors linear1 2,1 nan,1 2 0,0
on 2 predict bare.yaml --weights nan.safetensors --out b.h5 --force
is "$rc" 0 "an output that is no number"
has err '301 of 301 rows of output hold NaN' "is a warning"
# Images of output: channels first in the file
weights conv.safetensors conv2d1 2,1,1,1 1,-1 2 0,0
on 2 predict number.yaml --weights conv.safetensors --out c.h5 --set 'model={layers: [{conv2d: {out: 2, kernel: 1}}]}'
is "$rc" 0 "an output of images"
[ "$rc" = 0 ] || cat err
holds c.h5 'map { my ($h, $l) = ($_ >> 8, $_ & 255); ($h, $l, -$h, -$l) } 0 .. 300'
ok $? "in the order of PyTorch"
weights signal.safetensors conv1d1 2,1,1 1,-1 2 0,0
weights volume.safetensors conv3d1 2,1,1,1,1 1,-1 2 0,0
for space in 'signal [1,2] conv1d' 'volume [1,1,1,2] conv3d'; do
    read -r name shape type <<<"$space"
    on 2 predict number.yaml --weights $name.safetensors --out $name.h5 --set "model={layers: [{reshape: $shape}, {$type: {out: 2, kernel: 1}}]}"
    is "$rc" 0 "an output of ${name}s"
    [ "$rc" = 0 ] || cat err
    holds $name.h5 'map { my ($h, $l) = ($_ >> 8, $_ & 255); ($h, $l, -$h, -$l) } 0 .. 300'
    ok $? "in the order of PyTorch"
done

# Rows of 32 KB, 9.6 MB in all: they go in several pieces, from each rank and into the file
weights wide.safetensors conv2d1 4000,1,1,1 "$(perl -e 'print join ",", map { $_ % 7 } 0 .. 3999')" 4000 "$(perl -e 'print join ",", (0) x 4000')"
wide="--weights wide.safetensors --force --set"
for n in 0 2 3; do
    on $n predict number.yaml $wide 'model={layers: [{conv2d: {out: 4000, kernel: 1}}]}' --set train.batch=301 --out wide$n.h5
    is "$rc" 0 "large rows, $n ranks"
    [ "$rc" = 0 ] || cat err
    for row in 0 130 131 299 300; do
        holds wide$n.h5 'my ($h, $l) = ('"$row"' >> 8, '"$row"' & 255); map { my $w = $_ % 7; ($w * $h, $w * $l) } 0 .. 3999'
        ok $? "row $row is there"
    done
    cmp wide0.h5 wide$n.h5
    ok $? "the file is equal to the byte"
done

# ---- labels ----

on 0 eval mlp.yaml runs/mlp
accuracy=$(grep -oE 'accuracy [0-9.]+' out)
if [ -n "$python" ]; then
    is "accuracy $($python -c '
import h5py, numpy as np
p, v = h5py.File("mlp.h5", "r"), h5py.File("valid.h5", "r")
assert p["output"].dtype == np.float32 and p["output"].shape == (101, 10) and p["label"].dtype == np.int64
assert (p["output"][:].argmax(1) == p["label"][:]).all()
print("%.2f" % (100 * (p["label"][:] == v["label"][:]).mean()))')" "$accuracy" "labels are right as often as eval counts"
    is "$($python -c '
import h5py
p = h5py.File("gpt.h5", "r")
print(p["output"].shape, p["label"].shape, (p["output"][:].argmax(2) == p["label"][:]).all())')" \
        "(125, 16, 123) (125, 16) True" "tokens have a label each"
else
    ok 0 "labels # SKIP no python3 with h5py"
fi

# ---- refusals: before the work, alike on 1 and 3 ranks ----

refused() { # PATTERN TEXT OPTIONS...
    local pattern=$1 text=$2 n
    shift 2
    for n in 0 3; do
        on $n predict "$@"
        is "$rc" 2 "$text: refused, $n ranks"
        has err "^trireme: .*$pattern|^hint: .*$pattern" "$text: it says why"
        is "$(grep -c '^trireme:' err)" 1 "$text: once"
    done
}
w="--weights runs/mlp"
cp mlp.h5 kept.h5
mkfifo pipe
echo mine >notes.txt
grep -v valid mlp.yaml | sed '1a data: {train: digits.h5}' >alone.yaml
refused 'needs --weights' "no weights" mlp.yaml --out x.h5
refused 'needs --out' "no name" mlp.yaml $w
refused 'did you mean --force' "an unknown option" mlp.yaml $w --out x.h5 --forc
refused 'cannot read the weights nosuch' "weights that are not there" mlp.yaml --weights nosuch --out x.h5
refused 'notes.txt' "weights that are none" mlp.yaml --weights notes.txt --out x.h5
refused 'do not fit the model' "weights of another model" mlp.yaml --weights lenet.safetensors --out x.h5
refused 'nosuch.h5' "an input that is not there" mlp.yaml $w --out x.h5 --input nosuch.h5
refused 'the model expects \(1,28,28\)' "an input of another shape" mlp.yaml $w --out x.h5 --input images.h5
refused "no data set 'data'" "an input without the data set" mlp.yaml $w --out x.h5 --input n.h5
refused 'data.classes=N' "a training set that is not there" mlp.yaml $w --out x.h5 --set data.train=nosuch.h5
refused '--input' "no validation set" alone.yaml $w --out x.h5
refused 'nodir is no folder' "no folder" mlp.yaml $w --out nodir/x.h5
refused 'it is a pipe' "a pipe" mlp.yaml $w --out pipe
refused 'no HDF5 file' "a text" mlp.yaml $w --out notes.txt --force
refused 'it is there already' "a file that is there" mlp.yaml $w --out mlp.h5
refused 'it is the input' "the input" mlp.yaml $w --out valid.h5 --force
refused 'it is the input' "another name of it" mlp.yaml $w --out ./valid.h5 --force --input '*lid.h5'
refused 'it is the input' "the training set" mlp.yaml $w --out digits.h5 --force
refused 'is a checkpoint' "a part of a checkpoint" mlp.yaml $w --out runs/mlp/checkpoints/step-00000032/part-0.h5 --force
cmp mlp.h5 kept.h5
ok $? "what was there still is"
on 0 predict mlp.yaml $w --out y.h5 --set data.train=nosuch.h5 --set data.classes=10
is "$rc" 0 "with data.classes the training set is needless"
cmp mlp.h5 y.h5
ok $? "and the numbers are the same"
on 3 predict mlp.yaml $w --out mlp.h5 --force
is "$rc" 0 "--force"
near mlp.h5 kept.h5 1e-6
ok $? "writes it again"
is "$(ls x.h5 2>/dev/null)$(beside)" 0 "nothing was left by what was refused"

# ---- faults under way ----

(
    trap '' XFSZ
    ulimit -f 24
    "$TRIREME" predict mlp.yaml $w --out full.h5 --input digits.h5 >out 2>err
)
is $? 1 "a full disk"
has err 'full.h5' "it says where"
is "$(ls full.h5 2>/dev/null)$(beside)" 0 "and leaves nothing"

trireme data synth --kind digits --samples 20000 --out big.h5 >/dev/null
cp big.h5 big.copy
begin() { # starts three ranks and waits until they compute
    cp kept.h5 f.h5
    timeout -k 5 60 mpirun --oversubscribe --bind-to none -n 3 "$TRIREME" predict lenet.yaml --weights runs/lenet \
        --out f.h5 --force --input big.h5 --set train.batch=6 >out 2>err &
    pid=$!
    for _ in $(seq 400); do
        ls f.h5.new-* >/dev/null 2>&1 && return 0
        sleep 0.02
    done
    return 1
}
begin
truncate -s 100000 big.h5
wait $pid
rc=$?
[ $rc -ne 0 ] && [ $rc -ne 124 ]
ok $? "data that goes away ends the run (code $rc)"
has err '^trireme: .*big.h5' "the sentence names the file"
is "$(grep -c '^trireme:' err)" 1 "said once"
cmp f.h5 kept.h5
ok $? "the file of before is there"
is "$(beside)" 0 "and nothing beside it"
cp big.copy big.h5
begin
kill -USR1 "$(pgrep -P $pid mpirun || echo $pid)"
wait $pid
rc=$?
[ $rc -ne 0 ] && [ $rc -ne 124 ]
ok $? "a signal ends the run (code $rc)"
has err 'stopped by a signal' "it says so"
cmp f.h5 kept.h5
ok $? "the file of before is there"
is "$(beside)" 0 "and nothing beside it"
begin
kill -KILL "$(pgrep -f "^$TRIREME predict lenet.yaml" | tail -n 1)"
wait $pid
rc=$?
[ $rc -ne 0 ] && [ $rc -ne 124 ]
ok $? "a killed rank ends the run (code $rc)"
cmp f.h5 kept.h5
ok $? "the file of before is there"
done_testing
