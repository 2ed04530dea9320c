#!/bin/sh
# The guest's first process. $powerloss: a folder of the host, from the kernel's
# command line; its boot.env says the rest. The root is the host's, read-only.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
mkdir /mnt/disk /mnt/out /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t hostfs -o "$powerloss" none /mnt/out || exit 1
. /mnt/out/boot.env
mark() { echo "$*" >>"/mnt/out/$BOOT.marks"; }
give_up() {
    mark "failed: $*"
    sleep 600
}
cat /proc/filesystems >/mnt/out/filesystems
mark up
[ "$FILE_SYSTEM" = none ] && sleep 600
if [ "$DEVICE" = /dev/loop0 ]; then
    insmod "/usr/lib/uml/modules/$(uname -r)/kernel/drivers/block/loop.ko" || give_up "insmod loop"
    losetup /dev/loop0 /mnt/out/disk.img || give_up "losetup"
fi
# The journal is recovered here.
mount -t "$FILE_SYSTEM" -o noatime "$DEVICE" /mnt/disk ||
    give_up "the file system itself is damaged: $(dmesg | grep -iE 'xfs|ext4|jbd2' | tail -3 | tr '\n' ' ')"
mark mounted
mkdir -p /mnt/disk/campaign/corpus /mnt/disk/campaign/staging
sync
# A plain copy of what survived, before the library looks at it; and one after.
copy() {
    tar -C /mnt/disk -cf "/mnt/out/$BOOT.$1.tar" campaign || give_up "tar $1"
    mark "$1"
}
guest() {
    # shellcheck disable=SC2086
    env $PRELOAD "$GUEST" "$1" /mnt/disk/campaign /mnt/disk/campaign/corpus \
        /mnt/disk/campaign/staging /mnt/out "$BOOT" "$SEED" "$WORKERS" "$DURABILITY" "$LAG"
}
copy found
guest recover || give_up "recover: $?"
copy recovered
if [ "$STOP" = yes ]; then
    mark stopped
    sleep 600
fi
mark working
guest work
give_up "work ended: $?"
