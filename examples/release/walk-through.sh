#!/usr/bin/env bash
# Edits of a ConfigMap that 20 running pods have: a good one, one that a rule refuses, one that makes a pod unready, and what a
# person can do. It needs kubectl with the plugin, and a cluster with the driver and the controller.
#
#   examples/release/walk-through.sh [NAMESPACE]
#
# ../tell.sh says how it goes about it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

namespace=${1:-liveconfig-release}
# shellcheck source-path=SCRIPTDIR
. ../tell.sh

edit() { run kubectl patch configmap web-limits --type=merge --patch "{\"data\":{\"limits.yaml\":\"rate: $1\\nburst: $2\\n\"}}"; }

# status prints how far the release is. It ends with an error where a person is needed.
status() { run kubectl liveconfig release status configmap/web-limits; }

# watched follows a release to its end, which is as the first word says.
watched() {
	local end
	end=$(run kubectl liveconfig release status configmap/web-limits --watch --timeout="${patience:?}s" | tee /dev/stderr | tail -n 1) || true
	[[ $end == *"  $1  "* ]] || fail "the release ends with: $end; want $1"
}

in_state() { [[ $(kubectl liveconfig release status configmap/web-limits -o json) == *"\"state\": \"$1\""* ]]; }

# pods_with counts the pods that have a rate. Each prints it every second.
pods_with() { kubectl logs --selector=app.kubernetes.io/name=limiter --tail=1 | grep -cx "$1" || true; }

have() { [[ $(pods_with "$1") == "$2" ]]; }

are_ready() { [[ $(kubectl get deployment limiter -o jsonpath='{.status.readyReplicas}') == 20 ]]; }

step "A ConfigMap with rules, and 20 pods that have it."
run kubectl create namespace "$namespace"
run kubectl apply -f configmap.yaml -f deployment.yaml
kubectl rollout status deployment/limiter --timeout="${patience}s" >/dev/null || fail "the Deployment does not start"
eventually "there is a stable copy (does the controller run? deploy/README.md says how)" in_state Stable
status

step "A good edit reaches one pod, then five, and then all, without a restart."
edit 150 300
watched Stable
eventually "all pods have the edit" have 150 20

step "An edit that breaks a rule reaches no pod."
edit 300 200
eventually "the edit is refused" in_state Refused
status || true
sleep 2
have 300 0 || fail "a pod has an edit that was refused"

step "An edit that no rule refuses makes the first pod unready, and is taken back."
edit 5 10
watched Reverted
eventually "no pod has the edit" have 5 0
eventually "all pods are ready" are_ready

step "A person stops an edit, and shows it to all pods later."
edit 200 400
eventually "a pod has the edit" in_state Progressing
run kubectl liveconfig release freeze configmap/web-limits --reason "wait for the night"
sleep 2
have 200 1 || fail "other pods have the edit"
status || true
run kubectl liveconfig release promote configmap/web-limits
eventually "all pods have the edit" have 200 20

step "A person takes an edit back."
edit 250 500
eventually "a pod has the edit" in_state Progressing
run kubectl liveconfig release revert configmap/web-limits --reason "wrong customer"
eventually "no pod has the edit" have 250 0

step "What has happened. The ConfigMap still has the last edit: nobody but its owner writes it."
run kubectl liveconfig release history configmap/web-limits
run kubectl get configmap web-limits -o 'jsonpath={.data.limits\.yaml}'

step "That was all."
run kubectl delete namespace "$namespace"
