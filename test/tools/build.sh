#!/usr/bin/env bash
# Builds the programs that tests and checks need, from the Go modules beside this script.
#
#   test/tools/build.sh                lists the programs
#   test/tools/build.sh PROGRAM...     builds those that are missing or out of date
#
# A program is out of date when its module's go.mod or go.sum, its row below, its flags, its own files here or the Go
# version changed. What is up to date costs nothing. It needs no root, and the modules keep their requirements out of the
# project's own go.mod.
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$tools/../.." && pwd)
k8s=k8s.io/kubernetes/cmd
containerd=github.com/containerd/containerd/v2/cmd

# program | module (a folder here) | folder below bin/ | package
programs="
etcd                    | kubernetes | k8s   | go.etcd.io/etcd/server/v3
kube-apiserver          | kubernetes | k8s   | $k8s/kube-apiserver
kubectl                 | kubernetes | k8s   | $k8s/kubectl
kubelet                 | kubernetes | k8s   | $k8s/kubelet
kube-controller-manager | kubernetes | k8s   | $k8s/kube-controller-manager
kube-scheduler          | kubernetes | k8s   | $k8s/kube-scheduler
storage-e2e             | kubernetes | k8s   | ./storage-e2e
agnhost                 | kubernetes | k8s   | k8s.io/kubernetes/test/images/agnhost
golangci-lint           | lint       | tools | github.com/golangci/golangci-lint/v2/cmd/golangci-lint
gotestsum               | gotestsum  | tools | gotest.tools/gotestsum
gremlins                | gremlins   | tools | github.com/go-gremlins/gremlins/cmd/gremlins
govulncheck             | vulncheck  | tools | golang.org/x/vuln/cmd/govulncheck
helm                    | helm       | tools | helm.sh/helm/v4/cmd/helm
coredns                 | coredns    | tools | ./coredns
containerd              | containerd | node  | $containerd/containerd
containerd-shim-runc-v2 | containerd | node  | $containerd/containerd-shim-runc-v2
ctr                     | containerd | node  | $containerd/ctr
runc                    | runc       | node  | github.com/opencontainers/runc
"

# Those of other versions of Kubernetes have the version in their names, such as kubelet-1.35, and a folder for it.
minors=$(basename -a "$tools"/kubernetes-* | cut -d- -f2)
for minor in $minors; do
	for program in kube-apiserver kubectl kubelet kube-controller-manager kube-scheduler; do
		programs+="$program-$minor | kubernetes-$minor | kubernetes/$minor | $k8s/$program"$'\n'
	done
done

# field N PROGRAM prints one column of the table, or fails for a program that is not in it.
field() {
	awk -F ' *[|] *' -v n="$1" -v program="$2" '$1 == program { print $n; found = 1 } END { exit !found }' <<<"$programs"
}

# fingerprint PROGRAM names everything the program depends on.
fingerprint() {
	local module package
	module=$(field 2 "$1")
	package=$(field 4 "$1")
	(
		cd "$tools" && cat "$module/go.mod" "$module/go.sum" && echo "$package"
		# A program of our own depends on its files too.
		[[ $package != ./* ]] || find "$module/$package" -type f ! -name '*_test.go' -print0 | sort -z | xargs -0 sha256sum
		ldflags "$module" && tags "$module" && cgo "$module" && go env GOVERSION GOOS GOARCH
	) | sha256sum | cut -d' ' -f1
}

# kubernetes_version MODULE
kubernetes_version() { (cd "$tools/$1" && go list -m -f '{{.Version}}' k8s.io/kubernetes); }

# ldflags MODULE: Kubernetes programs carry the version of their module, since clients ask the API server for it.
ldflags() {
	echo "-s -w"
	[[ $1 != runc ]] || echo "-X main.version=$(cd "$tools/runc" && go list -m -f '{{.Version}}' github.com/opencontainers/runc)"
	[[ $1 == kubernetes* ]] || return 0
	local version minor
	version=$(kubernetes_version "$1")
	minor=${version#v1.}
	local at=k8s.io/component-base/version
	echo "-X $at.gitVersion=$version -X $at.gitMajor=1 -X $at.gitMinor=${minor%%.*} -X $at.gitTreeState=clean"
	echo "-X k8s.io/client-go/pkg/version.gitVersion=$version"
}

# tags MODULE: containerd goes without snapshotters that tests do not use; runc without seccomp starts no pod.
tags() {
	case $1 in
	containerd) echo no_btrfs,no_devmapper,no_zfs,no_aufs ;;
	runc) echo seccomp ;;
	esac
}

# cgo MODULE: runc enters namespaces by C code. The others are static.
cgo() { [[ $1 == runc ]] && echo 1 || echo 0; }

# build MODULE FOLDER PROGRAM... compiles programs of one module together, so that they share the work.
build() {
	local module=$1 out=$root/bin/$2 program
	shift 2
	local packages=()
	for program; do packages+=("$(field 4 "$program")"); done
	CGO_ENABLED=$(cgo "$module") "$root/test/go-build.sh" "$*" "$tools/$module" -trimpath -tags="$(tags "$module")" \
		-ldflags="$(ldflags "$module" | tr '\n' ' ')" -o "$staging/" "${packages[@]}"
	# A module's last element can be its version: the go command then names the program after the element before.
	[[ ! -e $staging/server ]] || mv "$staging/server" "$staging/etcd"
	mkdir -p "$out"
	for program; do
		mv -f "$staging/${program%-1.*}" "$out/${program%-1.*}"
		fingerprint "$program" >"$out/.$program.sum"
	done
}

# borrowed PROGRAM prints where KUBEBUILDER_ASSETS has a program that may stand for ours: many projects have it,
# that is a folder with etcd, kube-apiserver and kubectl. Those of Kubernetes must be of the minor version that tests are
# written for.
borrowed() {
	local program=$1 path ours theirs
	[[ -n ${KUBEBUILDER_ASSETS:-} ]] && path=$(realpath -e "$KUBEBUILDER_ASSETS/$program" 2>/dev/null) && [[ -x $path ]] || return 1
	[[ $path != "$root"/bin/* ]] || return 1 # Ours.
	case $program in
	etcd) ;;
	kube-apiserver | kubectl)
		ours=$(kubernetes_version kubernetes)
		theirs=$(
			if [[ $program == kubectl ]]; then set -- version --client; else set -- --version; fi
			"$path" "$@" 2>/dev/null | grep -oE 'v1\.[0-9]+\.[0-9]+[^ ]*' | head -n 1
		)
		if [[ ${theirs%.*} != "${ours%.*}" ]]; then
			echo "KUBEBUILDER_ASSETS has $program ${theirs:-of no known version}; tests need ${ours%.*}, which is built from source" >&2
			return 1
		fi
		;;
	*) return 1 ;;
	esac
	echo "$path"
}

# borrow PROGRAM has bin/ lead to a program that stands for ours.
borrow() {
	local path out
	path=$(borrowed "$1") || return 1
	out=$root/bin/$(field 3 "$1")
	[[ $(readlink "$out/$1") == "$path" ]] || echo "using $path"
	ln -sfn "$path" "$out/$1"
	echo "borrowed $path $(sha256sum <"$path")" >"$out/.$1.sum"
}

# stale PROGRAM succeeds when the program must be built.
stale() {
	local out
	out=$root/bin/$(field 3 "$1")
	[[ ! -x $out/${1%-1.*} || $(cat "$out/.$1.sum" 2>/dev/null) != "$(fingerprint "$1")" ]]
}

if (($# == 0)); then
	awk 'NF { print $1 }' <<<"$programs"
	exit
fi
for program; do
	field 1 "$program" >/dev/null || { echo "no program is called $program; run $0 to see which there are" >&2 && exit 2; }
done
mkdir -p "$root/bin/k8s" "$root/bin/node" "$root/bin/tools"
# Two makes at once build everything once: the second waits here and then finds nothing to do.
exec 9>"$root/bin/.lock"
flock 9
staging=$(mktemp -d "$root/bin/.staging-XXXXXX")
trap 'rm -rf "$staging"' EXIT
modules=$(awk -F ' *[|] *' 'NF && !seen[$2]++ { print $2 }' <<<"$programs")
for module in $modules; do
	todo=()
	for program; do
		[[ $(field 2 "$program") != "$module" ]] || borrow "$program" || ! stale "$program" || todo+=("$program")
	done
	((${#todo[@]} == 0)) || build "$module" "$(field 3 "${todo[0]}")" "${todo[@]}"
done
