#!/usr/bin/env bash
# timeout: 900
# The shared set of bad files through each door: data check, check, train on one rank and on three.  The verdict is the set's
# own, the sentence holds the words of the table below, and no door takes a second more than starting its ranks does.
top=$PWD
. tests/system/lib.bash
make_bad=$top/../shared/facts/hdf5/make_bad_h5.py
if [ ! -r "$make_bad" ] || ! find_python h5py; then
    ok 0 "the shared set # SKIP make_bad_h5.py or python3-h5py is not there"
    done_testing
fi
$python "$make_bad" bad >/dev/null
ok $? "the shared set is made"

# What has to be said, as an extended regular expression.  s03 and s04: seen where a model says what it expects.
cat >words <<'TABLE'
f01_empty.h5	f01_empty.h5: empty file \(0 bytes\), not HDF5
f02_text.h5	not an HDF5 file: it starts with 'sample,label', not with .x89HDF
f04_lfs_pointer.h5	not an HDF5 file: this is a Git LFS pointer.*616002048
f05_npz.h5	not an HDF5 file: looks like a zip or npz archive
f06_trunc_half.h5	truncated: the file is [0-9]+ bytes, its header says [0-9]+
f07_trunc_32.h5	truncated: .* 32 missing at the end
f08_badversion.h5	superblock version 99 is not known to this library \(HDF5 [0-9.]+\)
f09_directory.h5	is a directory, not a file
f11_left_open.h5	marked open for writing: a writer is at work, or died
l01_missing_ds.h5	no data set 'data'; .*this file has: X_train uint8 \(40,3,8,8\), y_train int64 \(40\)
l02_case.h5	no data set 'data'; did you mean 'Data'\?
l03_group.h5	'data' is a group, not a data set; it contains: data/images uint8 \(40,3,8,8\)
l04_committed_type.h5	'data' is a committed data type, not a data set
l06_soft_dangling.h5	'data' is a soft link to '/nowhere', which does not exist
l07_ext_missing.h5	'data' is an external link to missing_file.h5:/data
l09_ext_ok.h5	'data' is an external link to ok.h5:/data
l10_extstorage_passwd.h5	'data' keeps its bytes in another file \(/etc/passwd\); external raw storage is refused
l11_extstorage_missing.h5	'data' keeps its bytes in another file \(no_such_raw.bin\); external raw storage is refused
l12_vds_missing_source.h5	'data' is a virtual data set.* gone.h5
l14_deep.h5	no data set 'data'
s01_scalar.h5	'data' is a scalar; at least one dimension is needed \(samples first\)
s03_rank2.h5	'data' samples are \(192\), the model expects \(3,8,8\)
s04_hwc.h5	'data' samples are \(8,8,3\), the model expects \(3,8,8\): channels last\?
s05_len_mismatch.h5	'data' has 40 samples but 'label' has 39
s06_zero_samples.h5	'data' has 0 samples
s08_onehot.h5	'label' is float32 \(40,10\): one-hot\?
s10_sample_last.h5	'data' is \(3,8,8,40\): its first dimension 3 does not match the 40 of 'label' \(samples last
s12_shape_bomb.h5	'data' claims 715.3 GiB but stores 0 bytes \(never written\?\)
s14_half_written.h5	'data': only 2 of 5 chunks were ever written; samples 16 to 39 read as the fill value
t01_strings_fixed.h5	'label' holds 3-byte strings, numbers expected
t03_vlen_jpeg.h5	'data' holds variable-length arrays of uint8, numbers expected
t04_compound.h5	'data' is a compound \{x float32\[3\], e float64\}
t07_opaque2.h5	'data' holds 2-byte opaque values
t10_label_neg.h5	'label'\[7\] = -1, outside 0..9 \(1 bad of 40\)
t11_label_big.h5	'label'\[33\] = 10, outside 0..9 \(1 bad of 40\).*classes start at 1
t14_data_nan.h5	'data' sample 11 element \(2,3,4\) is NaN \(1 of 40 samples are bad\)
t15_data_inf.h5	'data' sample 12 element \(0,0,0\) is \+Inf
t19_reference.h5	'data' holds object references, numbers expected
t20_complex.h5	'data' is complex \{r,i\}
c01_gzip_corrupt.h5	'data' chunk at sample 16 \(8 samples at byte [0-9]+\): gzip data damaged
c02_fletcher.h5	'data' chunk at sample 24 .*: checksum wrong \(Fletcher32\): a disk or copy error
c04_unknown_filter.h5	'data' needs HDF5 filter 32999 \(zzz\), which is not available
c05_zstd_id.h5	'data' needs HDF5 filter 32015 \(zstd\), which is not available
m01_list.txt	m01_b.h5: 'data' samples are \(1,8,8\) but .*m01_a.h5 has \(3,8,8\)
m03_list.txt	m03_list.txt line 4: .*ok.h5 is listed twice
m05_list.txt	m05_list.txt: no files listed
TABLE
cat >job.yaml <<'YAML'
run: {name: j}
data: {train: none.h5, input: data, target: label, classes: 10, cache: on}
model: {layers: [flatten, {linear: 10}]}
train: {updates: 1, batch: 8, optimizer: {type: sgd, lr: 0.01}}
checkpoint: {every: never}
YAML

now() { echo "${EPOCHREALTIME/./}"; }
# Milliseconds that the launcher takes for nothing.
idle() {
    local start
    start=$(now)
    mpirun --oversubscribe --bind-to none -n "$1" true
    echo $((($(now) - start) / 1000))
}

# through DOOR PATH: runs it; verdict in got, milliseconds beyond the launcher in took
through() {
    local start base=0
    start=$(now)
    case $1 in
    data) on 0 data check --input data --target label --classes 10 "$2" ;;
    check) on 0 check job.yaml --set "data.train=[\"$2\"]" ;;
    train1 | train3)
        rm -rf runs
        base=${launch[${1#train}]}
        on "${1#train}" train job.yaml --set "data.train=[\"$2\"]" --quiet
        ;;
    esac
    took=$((($(now) - start) / 1000 - base))
    got=accept
    grep -q 'warning: .*written\|warning: .*listed twice' err && got=warn
    [ "$rc" = 2 ] && got=reject
    [ "$rc" != 0 ] && [ "$rc" != 2 ] && got="code $rc"
}
# What Open MPI adds behind a code that is not 0 is not ours.
said() { grep -aE '^(trireme|hint)' err; }

declare -A launch longest
while IFS=$'\t' read -r name verdict _ <&3; do
    case $name in *.txt) path=@bad/$name ;; *) path=bad/$name ;; esac
    pattern=$(awk -F'\t' -v n="$name" '$1 == n { print $2 }' words)
    [ "$verdict" = accept ] || [ -n "$pattern" ] || ok 1 "$name is not in the table of this test"
    for door in data check train1 train3; do
        want=$verdict
        # The shape of a sample is held against the model's; this model takes any, so another one is asked.
        case $name in s03_rank2.h5 | s04_hwc.h5) want=accept ;; esac
        for try in 1 2 3; do
            case $door in train?) launch[${door#train}]=$(idle "${door#train}") ;; esac
            through $door "$path"
            [ "$took" -lt 1000 ] || [ "$want" = accept ] && break
        done
        right=0
        [ "$got" = "$want" ] || right=1
        [ "$want" = accept ] || said | grep -qE -- "$pattern" || right=1
        [ "$want" = reject ] && [ "$(said | grep -vc '^hint')" != 1 ] && right=1
        # What is accepted is trained, and takes its time.
        [ "$want" = accept ] || [ "$took" -lt 1000 ] || [ "$try" -lt 3 ] || right=1
        [ "$want" = reject ] && [ "$took" -gt "${longest[$door]:-0}" ] && longest[$door]=$took
        ok $right "$name: $want by $door"
        [ $right = 0 ] || { echo "# $got after $took ms, /$pattern/"; sed 's/^/#   /' err; }
    done
done 3<bad/EXPECT.tsv # mpirun reads its stdin to the end

for door in data check train1 train3; do
    echo "# a refusal by $door took up to ${longest[$door]} ms beyond the launcher"
done

# ---- a model that says what it expects ----

for name in s03_rank2.h5 s04_hwc.h5; do
    pattern=$(awk -F'\t' -v n="$name" '$1 == n { print $2 }' words)
    for n in 0 1 3; do
        on $n train job.yaml --set data.train=bad/ok.h5 --set data.valid="bad/$name" --quiet
        is "$rc" 2 "$name as validation set on $n ranks"
        has err "^trireme: .*$pattern" "$name: says what the model expects"
    done
done
done_testing
