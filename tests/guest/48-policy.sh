#!/bin/sh
# `pressure` by the kernel's own PSI (version 2): what is never touched leaves, what is used stays, and it comes to rest. And `cold-age` beside it.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

over() { at_least VmSwap "$(status $pid VmSwap)" $1; }
some() { sed -n 's/^some.*total=//p' $wall/memory.pressure; }

## Its half that is never touched, 16 MiB of 32, leaves step by step. A limit far away makes the group whose memory.pressure is asked.
begin() { managed --memory-max 256M --age-every 1s --evict-by pressure:every=2s,stall=50ms,probe=10%,floor=4M -- mem ages 32 300; }
test_that a_program_runs_by_pressure begin
pid=$(cat run.pid)
wall=$(wall_of)
test_that its_group_has_psi grep -q ^some $wall/memory.pressure
test_that its_cold_half_leaves wait_for 120 over 14000
begun=$(some)
sleep 30
first=$(status $pid VmSwap) waited=$(some)
sleep 30
second=$(status $pid VmSwap)
# Of what is used it takes a little, finds that it is waited for, and lets it be: no more than a quarter of it is out at any time.
rests() { at_most VmSwap $first 20500 && at_most VmSwap $second 20500 && over 14000; }
test_that its_hot_half_stays rests
# 50 ms of each two seconds are what it may cause.
waits() { at_most "waited, us" $(($(some) - begun)) $((60 * 1000000 * 5 / 100)); }
test_that no_more_is_waited_than_allowed waits
echo "VmSwap $first, $second KiB; waited $begun, $waited, $(some) us"
test_that it_ends stop
reasons() { grep -q 'pressure: ' run.json; }
test_that each_step_has_its_reason reasons

## The two that learn: `promotion-rate` from what comes back after 16 s, so that its threshold is above that; `fit` from ages of what is used.
# settled: what is never touched is out, and no more than half a class of what is used, twice in half a minute.
settled() {
    test_that $1_its_cold_half_leaves wait_for 180 over 14000
    sleep 30
    first=$(status $pid VmSwap)
    sleep 15
    second=$(status $pid VmSwap)
    test_that $1_its_hot_half_stays rests
    echo "VmSwap $first, $second KiB"
    test_that $1_ends stop
}
learn() { managed --memory-max 256M --age-every 1s --evict-by $1 -- mem ages 32 300; }
test_that a_program_runs_by_promotion_rate learn promotion-rate:rate=1%,min-age=2s,window=2s,warm-up=40s,history=10m
pid=$(cat run.pid)
settled promotion_rate
reasons() { grep -q 'promotion-rate' run.json; }
test_that promotion_rate_says_why reasons
test_that a_program_runs_by_fit learn fit:rate=1%,window=2s,warm-up=40s,history=10m
pid=$(cat run.pid)
settled fit
reasons() { grep -q '(fit: ' run.json; }
test_that fit_says_why reasons

## By age, as a tenant: the configuration's policy, and the kernel's count of what is out.
printf '[policy]\nby = "cold-age"\nolder-than = "3s"\nevery = "1s"\n' >policy.toml
test_that it_serves serve --config policy.toml
mkdir $dir/a
test_that a_program_is_inside inside a mem ages 32 300
pid=$(cat a.pid)
test_that its_cold_half_leaves_too wait_for 120 over 14000
hot() { at_most VmSwap "$(status $pid VmSwap)" 20500; }
test_that its_hot_half_stays_too hot
as_counted() { near steal $(($(word $dir/a/memory.stat pgsteal_anon) * 4)) "$(status $pid VmSwap)" 10 512; }
test_that it_is_counted as_counted
kill -9 $pid
exit 0
