#!/bin/busybox sh
# First process of the guest. It loads the modules that reach the host's files,
# lays a writable overlay in memory over the host's root, and goes on in guest.sh
# inside of it. Any failure ends this process: the kernel panics, qemu exits, and
# the host shows the console, with what the failed command had to say.
set -e
bb=/bin/busybox

$bb mount -t devtmpfs dev /dev
$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
for module in $($bb cat /modules/order); do
	$bb insmod "/modules/$module"
done

$bb mkdir -p /host /memory /root
$bb mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 host /host
$bb mount -t tmpfs -o mode=755,size=75% memory /memory
$bb mkdir /memory/upper /memory/work
$bb mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work,xino=off root /root

# The host's /run holds sockets and pids that mean nothing here.
$bb mkdir -p /root/run /root/proc /root/sys /root/dev
$bb mount -t tmpfs -o mode=755 run /root/run
$bb mkdir /root/run/weir-vm
$bb cp /bin/busybox /guest.sh /command.sh /root/run/weir-vm/
for fs in proc sys dev; do
	$bb mount --move /$fs /root/$fs
done
exec $bb switch_root /root /run/weir-vm/busybox sh /run/weir-vm/guest.sh
