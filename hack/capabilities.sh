#!/usr/bin/env bash
# Prints what this machine must be able to do in kernel tests, as WEIR_REQUIRE wants it. It asks the kernel's
# configuration, not the features themselves, so that a feature that is built in and yet fails is a failure.
set -euo pipefail

config() { # every line of this kernel's configuration; nothing where it is not published
	if [[ -r /proc/config.gz ]]; then
		gzip -dc /proc/config.gz
	elif [[ -r /boot/config-$(uname -r) ]]; then
		cat "/boot/config-$(uname -r)"
	fi
}

lines=$(config)
# loadable OPTION MODULE: built in, or a module that this machine has.
loadable() {
	grep -q "^$1=y" <<<"$lines" || { grep -q "^$1=m" <<<"$lines" && modprobe -n -q "$2"; }
}

want=(redis qemu bpftool pulp prometheus) # make deps installs them
if [[ $EUID == 0 ]]; then
	want+=(root)
	if loadable CONFIG_NF_TABLES nf_tables; then want+=(nftables); fi
	if loadable CONFIG_IP_VS ip_vs; then want+=(ipvs); fi
	if loadable CONFIG_DUMMY dummy; then want+=(dummy); fi
fi
if grep -q '^CONFIG_DEBUG_INFO_BTF=y' <<<"$lines"; then want+=(btf); fi
if grep -q ' /sys/fs/cgroup cgroup2 ' /proc/mounts; then want+=(cgroup2); fi
(IFS=, && printf '%s\n' "${want[*]}")
