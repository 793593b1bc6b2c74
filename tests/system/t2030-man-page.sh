#!/usr/bin/env bash
# The manual page is made of the verbs' tables, and man reads it without a complaint.
top=$PWD
. tests/system/lib.bash

on 0 help man
is "$rc" 0 "help man"
cp out trireme.1
has trireme.1 '^\.TH TRIREME 1' "it is a manual page"
missing=
while read -r verb; do
    grep -qF ".SS trireme ${verb//-/\\-}" trireme.1 || missing+=" $verb"
done < <(trireme help | sed -nE 's/^  ([a-z]+( [a-z]+)*).*/\1/p')
is "$missing" "" "every verb of the overview is in it"
missing=
for verb in 'data import csv' 'data split' train predict; do
    for option in $(trireme $verb --help | sed -nE 's/^  --([a-z-]+).*/\1/p'); do
        awk -v verb=".SS trireme $verb" 'index($0, verb) == 1 { on = 1; next } /^\.S[SH]/ { on = 0 } on' trireme.1 |
            grep -qF "\\fB\\-\\-${option//-/\\-}\\fR" || missing+=" $verb --$option"
    done
done
is "$missing" "" "and their options"

if command -v man >/dev/null && man --version >/dev/null 2>&1 && command -v groff >/dev/null; then
    MANWIDTH=100 man --warnings=w -l trireme.1 >page 2>faults
    is "$(cat faults)" "" "man has no complaint"
    has page 'trireme data import csv FILE' "and shows it"
elif command -v mandoc >/dev/null; then
    mandoc -Tlint -Wwarning trireme.1 >faults 2>&1
    is "$(grep -v 'missing date' faults)" "" "mandoc has no complaint"
else
    ok 0 "man has no complaint # SKIP neither man with groff nor mandoc is there"
fi

make -s -C "$top" -n install DESTDIR=/nowhere OUT="${OUT:-build}" 2>/dev/null | grep -q 'trireme.1 /nowhere/usr/local/share/man/man1'
ok $? "make install puts it in place"
done_testing
