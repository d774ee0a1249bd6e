#!/usr/bin/env bash
# The plugin of kubectl in a day's work: config for a Deployment that has none, an edit in running pods, an edit as a rollout,
# and the way back. It needs kubectl with the plugin, and a cluster with the driver and the rollout controller.
#
#   examples/plugin/walk-through.sh [NAMESPACE]
#
# ../tell.sh says how it goes about it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

namespace=${1:-liveconfig-plugin}
# shellcheck source-path=SCRIPTDIR
. ../tell.sh

# in_use prints the ConfigMap that the volume of the Deployment's pods has.
in_use() { kubectl get deployment api -o jsonpath='{.spec.template.spec.volumes[0].csi.volumeAttributes.configMap}'; }

uses() { [[ $(in_use) == "$1" ]]; }

# uses_copy_but is for when the template names a copy that is not this one.
uses_copy_but() {
	local name
	name=$(in_use)
	[[ $name =~ ^api-config-[0-9a-f]{10}$ && $name != "$1" ]]
}

# rolled_out waits until the pods run with a greeting, and shows it.
rolled_out() {
	kubectl rollout status deployment/api --timeout="${patience:?}s" >/dev/null || fail "the rollout does not get to its end"
	eventually "the pods say: $1" says "$1"
	run kubectl exec deployment/api -- cat /etc/api/greeting
}

says() { [[ $(kubectl exec deployment/api -- cat /etc/api/greeting) == "$1" ]]; }

edit() { run kubectl patch configmap api-config --type=merge --patch "{\"data\":{\"greeting\":\"$1\\n\"}}"; }

step "A ConfigMap, and a Deployment that knows nothing of it."
run kubectl create namespace "$namespace"
run kubectl apply -f configmap.yaml -f deployment.yaml
kubectl rollout status deployment/api --timeout="${patience}s" >/dev/null || fail "the Deployment does not start"

step "It becomes files of the pods."
run kubectl liveconfig set volume deployment/api --configmap api-config --mount-path /etc/api
rolled_out hello

step "An edit reaches the running pods."
edit "good evening"
run kubectl liveconfig wait deployment/api --for=projected=configmap/api-config --timeout="${patience}s"
says "good evening" || fail "the wait is over, and the pods do not say: good evening"
run kubectl exec deployment/api -- cat /etc/api/greeting
run kubectl liveconfig status deployment/api

step "From now on, an edit is a rollout."
run kubectl liveconfig set trigger deployment/api configmap/api-config
eventually "the pod template uses a copy of api-config (does the rollout controller run? deploy/README.md says how)" uses_copy_but api-config
first=$(in_use)
rolled_out "good evening"
edit "good night"
eventually "the pod template uses another copy than $first" uses_copy_but "$first"
rolled_out "good night"
run kubectl liveconfig status deployment/api
run kubectl liveconfig rollout history deployment/api

step "It was a mistake: what did it change?"
run kubectl liveconfig rollout undo deployment/api --dry-run=client

step "It is taken back."
run kubectl liveconfig rollout undo deployment/api
rolled_out "good evening"
code=0
run kubectl liveconfig status deployment/api || code=$?
[[ $code == 2 ]] || fail "status ends with $code, want 2: the pods do not have the newest"
stays "the pod template uses $first" uses "$first"

step "That was all."
run kubectl delete namespace "$namespace"
