# Second stage, inside the overlay: mounts what a machine has, runs the command of
# command.sh with its output on virtio ports, and reports its exit status on another.
# It reads from command.sh: MODULES, shares() and run().
set -e
here=/run/weir-vm
bb=$here/busybox
. $here/command.sh

$bb mkdir -p /dev/pts /dev/shm /run/lock /lib/modules
$bb mount -t devpts -o mode=620,ptmxmode=666 devpts /dev/pts
$bb mount -t tmpfs -o mode=1777 shm /dev/shm
$bb ln -sf /proc/self/fd /dev/fd
$bb mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+cpu +memory +pids" >/sys/fs/cgroup/cgroup.subtree_control
$bb mount -t bpf bpf /sys/fs/bpf
$bb mount -t tracefs tracefs /sys/kernel/tracing
$bb mount --bind "$MODULES" /lib/modules
$bb ip link set lo up
$bb hostname weir-vm

tag=0
share() {
	$bb mkdir -p "$1"
	$bb mount -t 9p -o trans=virtio,version=9p2000.L,cache=mmap,msize=512000 "share$tag" "$1"
	tag=$((tag + 1))
}
shares

# port prints the device of the virtio port of that name, which appears a moment
# after its bus does.
port() {
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		for dir in /sys/class/virtio-ports/*; do
			if [ "$($bb cat "$dir/name")" = "$1" ]; then
				echo "/dev/${dir##*/}"
				return
			fi
		done
		$bb sleep 0.1
	done
	return 1
}
stdout=$(port stdout)
stderr=$(port stderr)
status=$(port status)
# Pipes stand between the command and the ports: a port can be opened only once,
# and a command may open /dev/stdout again.
$bb mkfifo $here/out $here/err
$bb cat $here/out >"$stdout" &
out=$!
$bb cat $here/err >"$stderr" &
err=$!

set +e
ulimit -n 65536
(run) <&- </dev/null >$here/out 2>$here/err
code=$?

# Processes that the command left behind may hold the pipes open: wait for the
# output that is under way, not for them.
for _ in 1 2 3 4 5 6 7 8 9 10; do
	[ -e /proc/$out ] || [ -e /proc/$err ] || break
	$bb sleep 0.1
done
$bb sync
echo "exit $code" >"$status"
echo b >/proc/sysrq-trigger
