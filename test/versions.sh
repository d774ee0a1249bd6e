#!/usr/bin/env bash
# Runs the core of the tests with other versions of Kubernetes than the others are written for: the driver with their API
# servers, and pods with their kubelets, schedulers and controllers. It ends with a table, and fails if any of it did.
#
#   test/versions.sh [MINOR...]     such as 1.35; all by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

(($#)) || mapfile -t minors < <(basename -a test/tools/kubernetes-* | cut -d- -f2 | sort -V)
(($# == 0)) || minors=("$@")
programs=(kube-apiserver kubectl kubelet kube-controller-manager kube-scheduler)

# outcome SUITE runs a suite with the version that is set, and prints how it ended.
outcome() {
	if test/go-test.sh "$1" >&2; then echo passed; else echo FAILED; fi
}

rows=()
for minor in "${minors[@]}"; do
	test/tools/build.sh etcd "${programs[@]/%/-$minor}"
	ln -sfn ../../k8s/etcd "bin/kubernetes/$minor/etcd"
	export LIVECONFIG_KUBERNETES=$minor
	version=$("bin/kubernetes/$minor/kube-apiserver" --version | cut -d' ' -f2)
	rows+=("| $version | $(outcome version-driver) | $(outcome version-node) |")
done
printf '%s\n' "| Kubernetes | driver with its API server | pods on a node |" "|---|---|---|" "${rows[@]}"
[[ "${rows[*]}" != *FAILED* ]]
