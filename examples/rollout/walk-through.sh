#!/usr/bin/env bash
# Changes of a ConfigMap as revisions of a Deployment: rolled out, undone, paused, and left alone in the end. It needs kubectl,
# and a cluster with the driver and the rollout controller.
#
#   examples/rollout/walk-through.sh [NAMESPACE]
#
# ../tell.sh says how it goes about it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

namespace=${1:-liveconfig-rollout}
# shellcheck source-path=SCRIPTDIR
. ../tell.sh

# in_use prints the ConfigMap that the volume of the Deployment's pods has.
in_use() { kubectl get deployment web -o jsonpath='{.spec.template.spec.volumes[0].csi.volumeAttributes.configMap}'; }

uses() { [[ $(in_use) == "$1" ]]; }

# uses_copy_but is for when the template names a copy that is not this one. The variable reads what the volume reads.
uses_copy_but() {
	local name variable
	name=$(in_use)
	variable=$(kubectl get deployment web \
		-o jsonpath='{.spec.template.spec.containers[0].env[0].valueFrom.configMapKeyRef.name}')
	[[ $name =~ ^web-config-[0-9a-f]{10}$ && $name != "$1" && $name == "$variable" ]]
}

revisions() { kubectl get replicasets -o name | wc -l; }

has_revisions() { [[ $(revisions) == "$1" ]]; }

# look is what tells which config a pod has.
# shellcheck disable=SC2016 # The container's shell expands it.
look=(sh -c 'cat /etc/web/config.yml; echo "log level: $LOG_LEVEL"')

# pods_have is for when there are two pods and each has a greeting and a log level.
pods_have() {
	local pod pods want
	printf -v want 'greeting: %s\nlog level: %s' "$1" "$2"
	pods=$(kubectl get pods -o name)
	[[ $(wc -w <<<"$pods") == 2 ]] || return 1
	for pod in $pods; do
		[[ $(kubectl exec "$pod" -- "${look[@]}" 2>/dev/null) == "$want" ]] || return 1
	done
}

# rolled_out waits until the pods run with a config, and shows it.
rolled_out() {
	kubectl rollout status deployment/web --timeout="${patience}s" >/dev/null || fail "the rollout does not get to its end"
	eventually "both pods have greeting: $1, log level: $2" pods_have "$1" "$2"
	run kubectl exec deployment/web -- "${look[@]}"
}

edit() { run kubectl patch configmap web-config --type=merge --patch "{\"data\":{\"config.yml\":\"greeting: $1\\n\",\"log-level\":\"$2\"}}"; }

events() { kubectl get events --field-selector "reason=$1,involvedObject.kind=Deployment" -o jsonpath='{range .items[*]}{.message}{"\n"}{end}'; }

# said prints the Events of a reason with a text in them, and fails if there is none.
said() { events "$1" | grep -F -- "$2"; }

has_event() { said "$@" >/dev/null; }

# event waits for an Event about the Deployment, with a text in it, and prints it.
event() {
	eventually "there is an Event $1 about the Deployment: $2" has_event "$@"
	echo "$1: $(said "$@")"
}

no_copies() { [[ -z $(kubectl get configmaps -l liveconfig.internal/copy-of=web-config -o name) ]]; }

step "A ConfigMap, and a Deployment that is triggered by it."
run kubectl create namespace "$namespace"
run kubectl apply -f configmap.yaml -f deployment.yaml
eventually "the pod template uses a copy of web-config (does the rollout controller run? deploy/README.md says how)" uses_copy_but web-config
first=$(in_use)
rolled_out hello info
run kubectl get configmaps -l liveconfig.internal/copy-of=web-config -o name

step "An edit of the ConfigMap is a new revision, with a copy of its own."
edit "good evening" debug
eventually "the pod template uses another copy than $first" uses_copy_but "$first"
second=$(in_use)
rolled_out "good evening" debug
run kubectl get configmaps -l liveconfig.internal/copy-of=web-config -o name
run kubectl rollout history deployment/web

step "An undo brings the old config back, in files and variables."
before=$(revisions)
run kubectl rollout undo deployment/web
rolled_out hello info

step "And it stays: the ConfigMap still has the new one."
event ConfigUndone stays
stays "the pod template uses $first" uses "$first"
has_revisions "$before" || fail "the undo made a new ReplicaSet, and should have taken the old one"
run kubectl get configmap web-config -o 'jsonpath={.data.config\.yml}'

step "The next edit rolls forward again."
edit "good night" debug
eventually "the pod template uses a third copy" uses_copy_but "$first"
third=$(in_use)
[[ $third != "$second" ]] || fail "the edit brought back what was undone"
rolled_out "good night" debug

step "What is edited while the Deployment is paused waits, and is one revision."
before=$(revisions)
run kubectl rollout pause deployment/web
edit "good morning" info
edit "good day" info
event ConfigHeldBack "is paused"
stays "the pod template uses $third" uses "$third"
run kubectl rollout resume deployment/web
eventually "the pod template uses a fourth copy" uses_copy_but "$third"
rolled_out "good day" info
has_revisions $((before + 1)) || fail "there are $(revisions) ReplicaSets, want one more than $before"

step "Without the annotation the ConfigMap itself is used again, and an edit rolls out nothing."
run kubectl annotate deployment web liveconfig.internal/triggered-by-
eventually "the pod template uses web-config itself" uses web-config
rolled_out "good day" info
before=$(revisions)
edit hello info
eventually "the files follow the ConfigMap" pods_have hello info
run kubectl exec deployment/web -- "${look[@]}"
stays "the pod template uses web-config itself" uses web-config
has_revisions "$before" || fail "the edit made a new ReplicaSet"

step "The copies go with the last revision that needs them."
run kubectl delete deployment web
eventually "the copies are gone" no_copies
run kubectl get configmaps -l liveconfig.internal/copy-of=web-config
run kubectl delete namespace "$namespace"
