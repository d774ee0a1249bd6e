#!/usr/bin/env bash
# What a new user does on the first day: all examples in the order of their page, then a Deployment that needs a right, that
# rolls out its config, takes it back and is paused, a label that somebody removes, and a trigger that is spelled wrong. It
# needs kubectl with the plugin, and a cluster with the driver, the rollout controller and the images of the examples.
#
#   test/e2e/tour.sh [NAMESPACE]
#
# examples/tell.sh says how the script works. TOUR.md shows what it prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

namespace=${1:-liveconfig-tour}
# shellcheck source-path=SCRIPTDIR/../..
. examples/tell.sh

# The commands of the page are for the namespace of kubectl's context, and leave files where they are typed.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$PWD/examples" "$work/examples"
command kubectl config view --raw --minify --flatten >"$work/kubeconfig"
export KUBECONFIG=$work/kubeconfig
command kubectl config set-context --current --namespace="$namespace" >/dev/null
cd "$work"

# blocks prints the shell code of a section of the page: its last block, which cleans up, or all others.
blocks() {
	awk -v heading="## $1" -v which="$2" '
		/^## / { here = $0 == heading }
		here && /^```sh$/ { code = 1; n++; next }
		/^```$/ { code = 0 }
		code { text[n] = text[n] $0 "\n" }
		END { for (i = 1; i <= n; i++) if ((which == "last") == (i == n)) printf "%s", text[i] }' examples/README.md
}

# type_in types commands as they stand.
type_in() { bash -euo pipefail -c "$1" || fail "these commands of examples/README.md: $1"; }

# in_use prints the ConfigMap that the first volume of the Deployment's pods has.
in_use() { kubectl get deployment api -o jsonpath='{.spec.template.spec.volumes[0].csi.volumeAttributes.configMap}'; }

uses() { [[ $(in_use) == "$1" ]]; }

# uses_copy_but is for when the template names a copy that is not this one.
uses_copy_but() {
	local name
	name=$(in_use)
	[[ $name =~ ^api-config-[0-9a-f]{10}$ && $name != "$1" ]]
}

# rests is for when nothing but this is so: the same copy is in use, by as many revisions as before.
rests() { [[ $(in_use) == "$1" && $(kubectl get replicasets -o name | wc -l) == "$2" ]]; }

says() { [[ $(kubectl exec deployment/api -- cat /etc/api/greeting) == "$1" ]]; }

# rolled_out waits until the pods run with a greeting, and shows it.
rolled_out() {
	kubectl rollout status deployment/api --timeout="${patience:?}s" >/dev/null || fail "the rollout does not get to its end"
	eventually "the pods say: $1" says "$1"
	run kubectl exec deployment/api -- cat /etc/api/greeting
}

edit() { run kubectl patch configmap api-config --type=merge --patch "{\"data\":{\"greeting\":\"$1\\n\"}}"; }

# events prints the type, the reason and the quoted text of the Events about objects of a kind, a line for each.
events() {
	kubectl get events --field-selector "involvedObject.kind=$1" \
		-o go-template='{{range .items}}{{printf "%s %s: %q\n" .type .reason .message}}{{end}}'
}

# has_event is for when one line of the Events has all of these texts.
has_event() {
	local found text
	found=$(events "$1")
	shift
	for text; do
		found=$(grep -F -- "$text" <<<"$found") || return 1
	done
}

# has_label is for when a copy says what it is a copy of.
has_label() { [[ $(kubectl get configmap "$1" -o jsonpath='{.metadata.labels.liveconfig\.internal/copy-of}') == api-config ]]; }

uid_of() { kubectl get configmap "$1" -o jsonpath='{.metadata.uid}'; }

# shown_as is for when status says something of the pods that do not have the newest.
shown_as() { (kubectl liveconfig status deployment/api || true) 2>&1 | grep -F -- "$1" >/dev/null; }

step "All examples, in the order of their page. Nothing is cleaned up in between."
run kubectl create namespace "$namespace"
eventually "the namespace has its service account" kubectl get serviceaccount default >/dev/null
mapfile -t sections < <(sed -n 's/^## //p' examples/README.md)
for section in "${sections[@]}"; do
	commands=$(blocks "$section" first)
	if [[ $commands == examples/*.sh ]]; then
		echo "## $section is a script, which stands for itself."
		continue
	fi
	echo "## $section"
	type_in "$commands"
done
# A pod that an example replaces may go meanwhile.
eventually "no example disturbs another one" kubectl wait --for=condition=Ready pod --all --timeout=10s >/dev/null
echo "All pods of all examples are ready."

step "A Deployment whose pods may not read their Secret waits, and an Event says what to apply."
run kubectl apply -f examples/plugin/
run kubectl create secret generic api-token --from-literal=token=first
run kubectl liveconfig set volume deployment/api --configmap api-config --mount-path /etc/api
run kubectl liveconfig set volume deployment/api --secret api-token --mount-path /etc/token
eventually "an Event on a pod names the Role that is missing" has_event Pod "Warning FailedMount" "read-secret-api-token"
run kubectl liveconfig grant deployment/api --apply
rolled_out hello
run kubectl exec deployment/api -- cat /etc/token/token
echo

step "With a trigger, an edit is a rollout."
run kubectl liveconfig set trigger deployment/api configmap/api-config
eventually "the pod template uses a copy of api-config" uses_copy_but api-config
first=$(in_use)
rolled_out hello
edit "good evening"
eventually "the pod template uses another copy than $first" uses_copy_but "$first"
second=$(in_use)
rolled_out "good evening"

step "An undo takes the edit back, and status says so."
run kubectl rollout undo deployment/api
rolled_out hello
eventually "status says that the rollout was undone" shown_as "undone"
echo "status: the rollout to $second was undone"

step "The next edit is rolled out again."
edit "good night"
eventually "the pod template uses another copy than $first" uses_copy_but "$first"
third=$(in_use)
rolled_out "good night"

step "A paused Deployment is shown as paused, and rolls out when it is resumed."
run kubectl rollout pause deployment/api
edit "good day"
eventually "an Event says that the Deployment is paused" has_event Deployment ConfigHeldBack paused
eventually "status says that the Deployment is paused" shown_as "paused"
echo "status: the deployment is paused"
stays "the pod template uses $third" uses "$third"
run kubectl rollout resume deployment/api
eventually "the pod template uses another copy than $third" uses_copy_but "$third"
fourth=$(in_use)
rolled_out "good day"

step "Somebody removes a label of the copy in use. The controller puts the label back, and nothing else happens."
uid=$(uid_of "$fourth") revisions=$(kubectl get replicasets -o name | wc -l)
run kubectl label configmap "$fourth" liveconfig.internal/copy-of-
eventually "$fourth has its label again" has_label "$fourth"
stays "$fourth is in use, and no revision is added" rests "$fourth" "$revisions"
[[ $(uid_of "$fourth") == "$uid" ]] || fail "$fourth is not the object that it was"
! has_event Deployment ConfigCopyGone || fail "an Event says that a copy was deleted: $(events Deployment)"
! has_event ConfigMap deleted || fail "an Event says that something was deleted: $(events ConfigMap)"
echo "The label is back, and no Event says that anything was deleted."

step "A name in the trigger is spelled wrong. An Event names the object that is meant, and nothing is rolled out."
run kubectl annotate deployment api --overwrite liveconfig.internal/triggered-by=configmap/api-confg
eventually "a Warning names api-config" has_event Deployment Warning api-confg api-config
stays "$fourth is in use, and no revision is added" rests "$fourth" "$revisions"
echo "A Warning on the Deployment names api-config."
run kubectl annotate deployment api --overwrite liveconfig.internal/triggered-by=configmap/api-config
edit "good morning"
eventually "the pod template uses another copy than $fourth" uses_copy_but "$fourth"
rolled_out "good morning"

step "That was the tour."
for section in "${sections[@]}"; do
	type_in "$(blocks "$section" last)" >/dev/null
done
run kubectl delete namespace "$namespace"
