#!/usr/bin/env bash
# Fetches Debian's kernels and busybox for virtual machines into bin/vm, without installing them: a folder for each processor
# and kernel, such as bin/vm/amd64-6.1. It compiles Debian's policy of SELinux to bin/vm/selinux/policy. It needs apt and no
# root, and does not touch this machine's lists of packages.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$root/bin/vm
# PROCESSOR RELEASE-OF-DEBIAN VERSION: each is the newest kernel of that version in that release.
kernels=("amd64 bookworm 6.1" "amd64 trixie 6.12" "arm64 bookworm 6.1")
rules=$root/test/vm/policy.cil # Added to Debian's.
wanted="$(cat "${BASH_SOURCE[0]}" "$rules" | sha256sum)"

[[ $(cat "$out/.packages" 2>/dev/null) != "$wanted" ]] || exit 0
for program in apt-get dpkg-deb; do
	[[ -n $(type -P "$program") ]] || { echo "$program is needed: virtual machines have Debian's kernels." >&2 && exit 1; }
done
mkdir -p "$root/bin"
exec 9>"$root/bin/.vm.lock"
flock 9
[[ $(cat "$out/.packages" 2>/dev/null) != "$wanted" ]] || exit 0 # Another one has fetched them meanwhile.
staging=$(mktemp -d "$root/bin/.vm-XXXXXX")
trap 'rm -rf "$staging"' EXIT

mkdir -p "$staging"/apt/{lists,cache}/partial
: >"$staging/apt/status"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
for release in bookworm trixie; do
	echo "deb [arch=amd64,arm64 signed-by=$keys] http://deb.debian.org/debian $release main"
	echo "deb [arch=amd64,arm64 signed-by=$keys] http://deb.debian.org/debian-security $release-security main"
done >"$staging/apt/sources.list"
apt=(-qq -o "Dir::Etc::SourceList=$staging/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$staging/apt/lists"
	-o "Dir::State::status=$staging/apt/status" -o "Dir::Cache=$staging/apt/cache" -o "APT::Sandbox::User=$(id -un)"
	-o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Architectures::=arm64)
apt-get "${apt[@]}" update

# unpack PACKAGE fetches a package and unpacks it here.
unpack() {
	apt-get "${apt[@]}" download "$1"
	dpkg-deb --fsys-tarfile ./*.deb | tar -x
	rm ./*.deb
}

for kernel in "${kernels[@]}"; do
	read -r arch release version <<<"$kernel"
	package=$(apt-cache "${apt[@]}" show "linux-image-cloud-$arch:$arch" | sed -nE "s/^Depends: (linux-image-$version\.[^ ]*) .*/\1/p" | sort -V | tail -1)
	[[ -n $package ]] || { echo "$release has no kernel $version for $arch" >&2 && exit 1; }
	echo "fetching $package"
	mkdir "$staging/unpacked" && cd "$staging/unpacked"
	unpack "$package:$arch"
	unpack "busybox-static:$arch"
	mkdir -p "$staging/vm/$arch-$version"
	cp boot/vmlinuz-* "$staging/vm/$arch-$version/vmlinuz"
	# What containers need beyond it. Newer kernels' modules are compressed.
	find . \( -name overlay.ko\* -o -name veth.ko\* \) -exec cp {} "$staging/vm/$arch-$version/" \;
	cp bin/busybox "$staging/vm/$arch-$version/" 2>/dev/null || cp usr/bin/busybox "$staging/vm/$arch-$version/"
	cd "$root" && rm -rf "$staging/unpacked"
done

# The policy's version 33 is known to every kernel above. The tools need the C library of their own release.
echo "fetching and compiling SELinux's policy"
mkdir -p "$staging/unpacked/cil" "$staging/vm/selinux" && cd "$staging/unpacked"
for package in selinux-policy-default secilc policycoreutils libsepol2 libc6; do
	unpack "$package:$([[ $package != selinux-policy-default ]] && echo amd64 || echo all)/trixie"
done
libraries=$PWD/usr/lib/x86_64-linux-gnu
own() { "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$@"; }
for module in usr/share/selinux/default/*.pp.bz2; do
	bunzip2 <"$module" | own usr/libexec/selinux/hll/pp >"cil/$(basename "$module" .pp.bz2).cil"
done
own usr/bin/secilc --multiple-decls --policyvers=33 --mls=true --disable-neverallow --output="$staging/vm/selinux/policy" --filecontext=/dev/null \
	cil/*.cil "$rules"
echo "$wanted" >"$staging/vm/.packages"
rm -rf "$out"
mv "$staging/vm" "$out"
