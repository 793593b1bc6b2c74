#!/usr/bin/env bash
# timeout: 600
# Every layout of docs/data.md: its lines read such a file, every number is the file's, and training does not depend on ranks.
# shellcheck disable=SC2154 # rc comes from lib.bash
top=$PWD
. tests/system/lib.bash
layouts=$top/tests/system/layouts.py

needs_h5py "layouts"
"$python" "$layouts" make . || { ok 1 "the files are made"; done_testing; }
"$python" "$layouts" snippets "$top/docs/data.md" . >names
ok $? "the snippets of docs/data.md"
is "$(sort names | uniq -d)" "" "each has a name of its own"
is "$(sort names | tr '\n' ' ')" "$(cd expect && find . -name '*.npz' -printf '%f\n' | grep -v '^more-' | sed 's/\.npz$//' | sort | tr '\n' ' ')" \
    "there is a snippet for each layout"

# Forms of them that the page only speaks of.
more() { # NAME LIKE SED-SCRIPT
    sed "$3" "$2.yaml" >"$1.yaml"
    echo "$1" >>names
}
more more-mask mri 's/pad: max/pad: max\n  mask: true/'
more more-magnitude mri 's/complex: channels/complex: magnitude/'
more more-inclusion lbann 's/lbann.lst/lbann-in.lst/'
more more-cut speech 's/pad: max, mask: true/pad: 8/'
echo 'data: {train: variable.h5, sample: bytes, pad: max}' >more-vlen.yaml
echo more-vlen >>names
echo 'data: {train: signal.h5}' >more-signal.yaml
echo more-signal >>names

# What learns from it; the snippet says only what the data is.
model_of() { # NAME
    case $1 in
    bert) echo 'model: {layers: [slice: {count: 16, name: ids, from: input}, slice: {first: 16, count: 16, name: parts, from: input}, linear: {out: 8, from: ids, name: a}, linear: {out: 8, from: parts, name: b}, concat: {from: [a, b]}, linear: 9]}' ;;
    more-signal) echo 'model: {layers: [conv1d: {out: 5, kernel: 1}]}' ;;
    climate) echo 'model: {layers: [conv2d: {out: 3, kernel: 1}]}' ;;
    speech | more-cut) echo 'model: {layers: [linear: 7]}' ;;
    *) echo 'model: {preset: mlp, hidden: [4]}' ;;
    esac
    local loss=cross_entropy more=
    grep -q 'target_type: float' "$1.yaml" && loss=mse
    [[ $1 == speech || $1 == more-cut ]] && more=', ignore_index: 255'
    echo "train: {epochs: 2, batch: 4, loss: $loss$more, optimizer: {type: sgd, lr: 1e-6}, valid_every: never}"
    echo "balance: off"
    echo "device: {threads: 1}"
}

while read -r name; do
    model_of "$name" >rest
    cat rest >>"$name.yaml"
    on 0 data dump "$name.yaml" --out rows.h5 --force
    is "$rc" 0 "$name: is read" || cat err
    "$python" "$layouts" compare "expect/$name.npz" rows.h5
    ok $? "$name: every number"
    on 0 data dump "$name.yaml" --out rows.h5 --force --set data.cache=off
    "$python" "$layouts" compare "expect/$name.npz" rows.h5
    ok $? "$name: the same without memory"
    on 0 check "$name.yaml"
    is "$rc" 0 "$name: check"
    # The same updates on any number of ranks, kept in memory or not: so the same samples, each once.
    on 0 train "$name.yaml" --quiet --dump-losses one
    is "$rc" 0 "$name: trains"
    [ "$rc" = 0 ] || sed 's/^/# /' err
done <names

# shellcheck disable=SC2013 # names are single words
for name in $(cat names); do
    on 0 train "$name.yaml" --quiet --dump-losses one --set run.name="of-$name"
    weights=$(echo "runs/of-$name/checkpoints/"step-* | awk '{ print $NF }')
    valid=()
    grep -q 'valid: ' "$name.yaml" ||
        valid=(--set "data.valid=$(sed -nE 's/.*train: ("[^"]*"|[^ ,}]*).*/\1/p' "$name.yaml" | head -n 1)")
    on 0 predict "$name.yaml" --weights "$weights" --out one.h5 --force --set data.cache=off "${valid[@]}"
    is "$rc" 0 "$name: predicts"
    [ "$rc" = 0 ] || sed 's/^/# /' err
    for n in 2 3; do
        on $n train "$name.yaml" --quiet --dump-losses many --set data.cache=off
        is "$rc" 0 "$name: trains on $n ranks"
        close_losses one many 1e-5
        ok $? "$name: the same losses on $n ranks"
    done
    on 3 predict "$name.yaml" --weights "$weights" --out many.h5 --force "${valid[@]}"
    is "$rc" 0 "$name: predicts on 3 ranks"
    [ "$rc" = 0 ] || sed 's/^/# /' err
    "$python" "$layouts" same one.h5 many.h5
    ok $? "$name: the same predictions"
done

on 0 train flow.yaml --quiet --dump-losses one --set data.shuffle=window
on 2 train flow.yaml --quiet --dump-losses many --set data.shuffle=window --set data.cache=off
close_losses one many 1e-5
ok $? "the same in window order"

# ---- data info says how such a file is read ----

told() { # FILE LINES-PATTERN...: the lines are there, and they read the file
    local file=$1
    shift
    on 0 data info "$file"
    for line; do has out "^  $line\$" "$file: info tells '$line'"; done
    sed -n '/^data:/,$p' out >told.yaml
    local loss=cross_entropy
    grep -q 'target_type: float' told.yaml && loss=mse
    grep -q 'target: ' told.yaml || return
    printf 'model: {preset: mlp, hidden: [4]}\ntrain: {epochs: 1, batch: 4, loss: %s, ignore_index: 255}\n' $loss |
        if [ $loss = mse ]; then sed 's/, ignore_index: 255//'; else cat; fi >>told.yaml
    [ "$file" = speech.hdf ] && sed -i 's/model: .*/model: {layers: [linear: 7]}/' told.yaml
    on 0 check told.yaml
    is "$rc" 0 "$file: and so it is read" || cat err told.yaml
}
told fuel.h5 'input: features' 'train_split: train .*'
told pictures.h5 'sample: bytes' 'decode: pictures' 'shape: \[3, 6, 7\]' 'target: targets'
told cells.h5ad 'input: "csr:/X"' 'target: obs/label'
told table.h5 'input: /table/table.values_block_0'
told demos.hdf5 'groups: "/data/\*"' 'input: obs/eef' 'target: actions'
told lbann.h5 'groups: "/RUN_ID/\*"' 'sample: group'
told seeds.h5 'groups: "/\*"' 'input: data'
told speech.hdf 'sample: ragged' 'lengths: seqLengths' 'target: targets/data/classes'
told mri-0.h5 'complex: channels'
told virtual.h5 'allow_virtual: true'
told numbers.h5 'input_type: bfloat16'

# ---- a slice of joined inputs is the input that it was ----

for part in 0:input_ids 32:input_mask; do
    on 0 train bert.yaml --quiet --dump-losses one --set "model.layers=[slice: {first: ${part%:*}, count: 16}, linear: 9]"
    is "$rc" 0 "slice: ${part#*:} trains"
    rm many
    on 0 train bert.yaml --quiet --dump-losses many --set "data.input=/${part#*:}" --set 'model.layers=[linear: 9]'
    close_losses one many 0
    ok $? "slice: the part ${part#*:}"
    rm many
    on 2 train bert.yaml --quiet --dump-losses many --set "model.layers=[slice: {first: ${part%:*}, count: 16}, linear: 9]"
    close_losses one many 1e-5
    ok $? "slice: on two ranks"
done

# ---- bad samples are left out here as well ----

"$python" -c '
import h5py
f = h5py.File("flow.hdf5", "r+"); f["pressure"][1, 3, 2, 2] = float("nan")'
on 0 data dump flow.yaml --out rows.h5 --force --set data.on_bad_sample=skip
is "$rc" 0 "windows with a NaN are left out"
has out '8 samples' "and no others"
refused() { # TEXT PATTERN NAME SETTINGS...
    local text=$1 pattern=$2 name=$3
    shift 3
    on 0 check "$name.yaml" "$@"
    is "$rc" 2 "$text: refused"
    has err "^trireme: .*($pattern)" "$text: it says why"
    is "$(grep -vc '^hint: ' err)" 1 "$text: in one line"
}
refused "a NaN" 'sample 6 element .10,2,2. is NaN .4 of 12 samples' flow

# ---- inference knows the shapes of maps ----

on 0 predict climate.yaml --weights runs/climate --input 'climate/*.h5' --out maps.h5
is "$rc" 0 "a map of classes is predicted"
"$python" -c '
import h5py, sys
f = h5py.File("maps.h5"); o, l = f["output"][:], f["label"][:]
sys.exit(not (o.shape == (5, 3, 6, 9) and l.shape == (5, 6, 9) and (o.argmax(1) == l).all()))'
ok $? "one class for each pixel"

on 0 predict more-signal.yaml --weights runs/more-signal --input signal.h5 --out lines.h5
"$python" -c '
import h5py, sys
f = h5py.File("lines.h5"); o, l = f["output"][:], f["label"][:]
sys.exit(not (o.shape == (6, 5, 8) and l.shape == (6, 8) and (o.argmax(1) == l).all()))'
ok $? "one class for each place of a signal"

# ---- faults are sentences ----

hinted() { has err "^hint: .*$1" "the hint helps"; }

refused "no such member" "has no member 'values_block_2'; its members are: index, values_block_0" table \
    --set data.input=/table/table.values_block_2
hinted 'values_block_0|values_block_1'
refused "a table without a member" "is a compound .index int64" table --set data.input=/table/table
hinted '/?table/table.MEMBER'
refused "columns that are not there" 'columns \[14:25\] do not fit the 20' jets --set 'data.input=/jets[14:25]'
refused "another number of samples" "has 10 samples, .* has 40|has 40 samples .* 10" keras --set data.target=/y_test
refused "windows that are too long" "has 11 steps of time, a window has 21" burgers --set data.in_steps=20
refused "windows of classes" "numbers to regress" burgers --set data.target_type=class --set train.loss=cross_entropy
sed /pad:/d mri.yaml >unpadded.yaml
refused "different sizes" "is \(6,8,7\) but the first one was \(4,8,6\)" unpadded
hinted 'data.pad: max'
refused "longer than the padding" "is 7 long, data.pad is 6" mri --set data.pad=6
refused "complex numbers" "is complex" mri --set data.complex=refuse
sed "s/, ignore_index: 255//" speech.yaml >counted.yaml
refused "padding without a class for it" "a class that does not count" counted
refused "tiles that do not fit" 'no multiple of the tiles \(3,4,4\)' cosmo --set 'data.tile=[3,4,4]'
refused "files of strangers" 'data.untrusted is for rows of one data set' jets --set data.untrusted=true
refused "a slice outside" "slice takes 17 channels from channel 32 on, its input has shape .48." bert \
    --set 'model.layers=[slice: {first: 32, count: 17}, linear: 9]'
refused "no such split" "no split 'tst' of 'features'; its splits are: train, test" fuel --set data.valid_split=tst
refused "no such group" "no group fits '/dta/\*'" demos --set 'data.groups=/dta/*'
on 0 check pictures.yaml --set 'data.shape=[1, 3, 3]'
is "$rc" 0 "pictures are scaled and cut, and may become grey"
refused "a damaged picture" "'image_bytes' sample 7: a damaged PNG picture" pictures --set data.train=damaged.h5
refused "bytes that are no picture" 'no PNG or JPEG picture' pictures --set data.train=damaged.h5 --set data.input=/others
refused "a key of another kind of sample" 'data.tile is only for data.sample tile' mri --set 'data.tile=[2,2]'
cp virtual-b.h5 kept.h5
rm virtual-b.h5
refused "a virtual source that is gone" 'virtual-b.h5: no such file' virtual
cp points.h5 virtual-b.h5
refused "a virtual source of another shape" 'expects another shape of its source|no data set' virtual
mv kept.h5 virtual-b.h5
refused "a virtual data set that nobody allowed" 'is a virtual data set' virtual --set data.allow_virtual=false

done_testing
