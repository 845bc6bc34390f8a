#!/bin/busybox sh
# The guest's first process. It mounts the file systems that programs read, runs the program, prints its exit status and
# powers off, even if something fails. The file /guest sets GUEST_KERNEL, GUEST_ZRAM_MIB and the program's arguments;
# /modules/order names modules in the order in which they can be loaded.
#
# There are three serial lines, so that output is not mixed: the kernel's messages are on the first, the program's output
# on the second, its exit status on the third.
#
# Without a mount, or with half of its swap, tests in the guest would fail without naming the reason; so the guest stops
# instead. Errors are kernel messages, which are sent before the power is off.
stop() { echo "<0>guest: cannot $1" >/dev/kmsg; poweroff -f; }
/bin/busybox --install -s /bin
export PATH=/files:/bin HOME=/tmp
mount -t devtmpfs devtmpfs /dev || stop 'mount /dev'
mount -t proc proc /proc || stop 'mount /proc'
mount -t sysfs sysfs /sys || stop 'mount /sys'
mount -t tmpfs tmpfs /tmp || stop 'mount /tmp'
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts || stop 'mount /dev/pts'
mount -t tmpfs tmpfs /dev/shm || stop 'mount /dev/shm'
mount -t cgroup2 cgroup2 /sys/fs/cgroup || stop 'mount the cgroups'
mount -t bpf bpf /sys/fs/bpf || stop 'mount /sys/fs/bpf'
mount -t debugfs debugfs /sys/kernel/debug || stop 'mount /sys/kernel/debug'
mount -t tracefs tracefs /sys/kernel/tracing || stop 'mount /sys/kernel/tracing'
ln -s /proc/self/fd /dev/fd
hostname guest
ip link set lo up
ulimit -c 0
stty -F /dev/ttyS1 raw 115200 || stop 'set up the second serial line'
exec 3>/dev/ttyS1 4>/dev/ttyS2
cd /tmp

. /guest
export GUEST_KERNEL GUEST_ZRAM_MIB
for module in $(cat /modules/order); do
    insmod "/modules/$module" || stop "load the module $module"
done
if [ "$GUEST_ZRAM_MIB" -gt 0 ]; then
    echo lz4 >/sys/block/zram0/comp_algorithm && echo "${GUEST_ZRAM_MIB}M" >/sys/block/zram0/disksize &&
        mkswap /dev/zram0 >/dev/null && swapon /dev/zram0 || stop 'swap on zram'
    echo 0 >/proc/sys/vm/page-cluster
fi

/program "$@" </dev/null >&3 2>&1 3>&- 4>&-
status=$?
# When the status is printed, no process writes to the second line any more; closing a line waits until all of it is
# sent. The kernel need not print that it powers off.
kill -9 -1 2>/dev/null
exec 3>&-
echo "$status" >&4
exec 4>&-
echo 0 >/proc/sys/kernel/printk
poweroff -f
