#!/usr/bin/env bash
# Installs what building, testing and showing Weir needs on Debian 12 or 13, and only what is missing.
# Says what it will change before it changes it; asks on a terminal. WEIR_YES=1, or no terminal, means yes.
set -euo pipefail

# From the machine's own release.
packages=(gcc libc6-dev make git ca-certificates clang-19 llvm-19 libbpf-dev
	redis-server redis-tools nftables iproute2 iputils-ping ipvsadm conntrack
	qemu-system-x86 bpftool kmod cpio busybox-static xz-utils shellcheck python3-pulp coinor-cbc
	prometheus prometheus-node-exporter)
# Debian 12 has these not at all or too old; there they come from Debian 13.
newer=(libhighs-dev)

source_file=/etc/apt/sources.list.d/weir-trixie.sources
pin_file=/etc/apt/preferences.d/weir-trixie
policy_file=/usr/sbin/policy-rc.d

say() { printf 'deps: %s\n' "$*"; }
die() {
	printf 'deps: %s\n' "$*" >&2
	exit 1
}

# missing PACKAGE... prints those that are not installed.
missing() {
	comm -23 <(printf '%s\n' "$@" | sort) \
		<(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' | sort)
}

# A Go of 1.21 or later fetches the version that go.mod names by itself.
go_is_new_enough() {
	local go version
	go=$(PATH=$PATH:/usr/local/go/bin command -v go) || return 1
	version=$(GOTOOLCHAIN=local "$go" env GOVERSION) || return 1
	[[ $version =~ ^go([0-9]+)\.([0-9]+) ]] || return 0 # a development version
	((BASH_REMATCH[1] > 1 || BASH_REMATCH[2] >= 21))
}

# apt's lists hold Debian 13, which has HiGHS and the kernel of the virtual machine.
apt_knows_trixie() { [[ $(apt-cache policy) =~ n=trixie, ]]; }

# bin/vmrun keeps the kernel that it once fetched.
kernel_at_hand() { compgen -G "${XDG_CACHE_HOME:-$HOME/.cache}/weir/kernel/6.*" >/dev/null || apt_knows_trixie; }

# debian_entry prints "URI SOURCE-FILE:LINE" of the machine's own Debian release.
debian_entry() {
	# shellcheck disable=SC2016 # apt expands these, not the shell
	apt-get indextargets --format '$(REPO_URI) $(SOURCESENTRY) $(ORIGIN) $(LABEL) $(CODENAME)' 'Created-By: Packages' |
		awk '$3 == "Debian" && $4 == "Debian" && $5 !~ /-/ && !seen++ {print $1, $2}'
}

# signed_by FILE:LINE prints the keyring that the entry names; nothing where it names none.
signed_by() {
	local file=${1%:*} line=${1##*:} key
	case $file in
	*.sources) key=$(sed -n 's/^Signed-By:[[:space:]]*//p' "$file" | head -n 1) ;;
	*) key=$(sed -n "${line}s/.*signed-by=\([^] ]*\).*/\1/p" "$file") ;;
	esac
	if [[ $key == /* ]]; then printf '%s\n' "$key"; fi
}

add_trixie_source() {
	local entry uri key
	entry=$(debian_entry)
	[[ $entry ]] || die "apt has no entry for a Debian release, so there is no mirror to take trixie from"
	uri=${entry% *}
	key=$(signed_by "${entry##* }")
	{
		printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: main\n' "$uri"
		if [[ $key ]]; then printf 'Signed-By: %s\n' "$key"; fi
	} >"$source_file"
	printf 'Package: *\nPin: release n=trixie\nPin-Priority: 100\n' >"$pin_file"
}

confirm() {
	if [[ ${WEIR_YES:-} == 1 || ! -t 0 ]]; then return; fi
	local answer
	read -r -p "deps: go on? [y/N] " answer
	[[ $answer == [yY]* ]] || die "nothing was changed"
}

# install ARGUMENT... runs apt-get install without starting the services that it brings.
install() {
	local guard=
	if [[ ! -e $policy_file ]]; then
		guard=$policy_file
		printf '#!/bin/sh\nexit 101\n' >"$guard"
		chmod +x "$guard"
		# shellcheck disable=SC2064 # the path of now
		trap "rm -f '$guard'" EXIT
	fi
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
	if [[ $guard ]]; then rm -f "$guard"; fi
}

# lifted prints the installed packages that installing "$@" would replace by newer ones.
lifted() { apt-get install -s -q --no-install-recommends "$@" | awk '$1 == "Inst" && $3 ~ /^\[/ {print $2}' | sort -u | xargs; }

[[ -r /etc/os-release ]] || die "this is not Debian: no /etc/os-release"
# shellcheck disable=SC1091 # the machine's own
release=$(. /etc/os-release && printf '%s %s' "${ID:-}" "${VERSION_ID:-}")
[[ $release == "debian 12" || $release == "debian 13" ]] || die "Debian 12 or 13 is needed, this is \"$release\""

mapfile -t want < <(missing "${packages[@]}")
mapfile -t want_newer < <(missing "${newer[@]}")
if ! go_is_new_enough; then want_newer+=(golang-go); fi
if ((${#want[@]} + ${#want_newer[@]} == 0)) && kernel_at_hand; then
	say "all is installed"
	exit 0
fi
[[ $EUID == 0 ]] || die "root is needed to install packages and their sources: ${want[*]} ${want_newer[*]}"

say "will read the package lists and install with apt:${want[*]:+ ${want[*]}}${want_newer[*]:+ ${want_newer[*]}}"
say "services that come with them are neither started nor enabled"
confirm
say "reading the package lists"
apt-get update -q

if ! apt_knows_trixie; then
	say "this release has neither HiGHS nor a kernel for the tests: will add Debian 13 (trixie) as a source, at priority 100, so that nothing else comes from it"
	say "  $source_file and $pin_file, from the mirror this machine uses"
	confirm
	add_trixie_source
	apt-get update -q
fi

if ((${#want[@]})); then install "${want[@]}"; fi
if ((${#want_newer[@]})); then
	from=("${want_newer[@]}")
	if [[ -e $source_file ]]; then from=(-t trixie "${want_newer[@]}"); fi
	replaced=$(lifted "${from[@]}")
	if [[ $replaced ]]; then
		say "will replace installed packages by newer ones: $replaced"
		if [[ $replaced == *base-files* ]]; then say "(HiGHS needs the newer C library, and that base-files: /etc/os-release will name Debian 13)"; fi
		confirm
	fi
	install "${from[@]}"
fi
for service in redis-server prometheus prometheus-node-exporter; do
	if [[ " ${want[*]} " == *" $service "* ]] && command -v systemctl >/dev/null; then
		systemctl disable --quiet "$service"
	fi
done
say "done"
