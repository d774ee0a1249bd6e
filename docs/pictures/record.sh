#!/usr/bin/env bash
# Records an edit in a real cluster of one node, and prints the lines of terminal.txt. Type at the root of the checkout:
#
#   make sandbox CMD=docs/pictures/record.sh >recording && mv recording docs/pictures/terminal.txt && make docs
#
# One container has a volume of liveconfig and the kubelet's own volume of the same ConfigMap, and prints the time at
# which it first reads a content. The recording begins just before kubectl sends the edit.
set -euo pipefail

# after NANOSECONDS prints the milliseconds from the edit to a time.
after() { awk -v ns=$(($1 - begin)) 'BEGIN { printf "%.1f", ns / 1e6 }'; }

# seen FILE TEXT prints when the container first read the text in the file.
seen() { kubectl logs web | awk -v file="$1" -v text="\"$2\"" '$2 == file && $3 == text { print $1; exit }'; }

# await FILE TEXT waits until the container has read the text, for three minutes at most.
await() {
	local end=$((SECONDS + 180))
	until [[ -n $(seen "$1" "$2") ]]; do
		((SECONDS < end)) || { echo "$1 does not have $2 after three minutes" >&2 && exit 1; }
		sleep 0.2
	done
}

kubectl create configmap web --from-literal=color=blue >&2
kubectl apply -f - >&2 <<'POD'
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
    - name: web
      image: liveconfig.test/box:1
      command: [box, watch, /liveconfig/color, /configmap/color]
      volumeMounts:
        - {name: live, mountPath: /liveconfig, readOnly: true}
        - {name: plain, mountPath: /configmap, readOnly: true}
  volumes:
    - {name: live, csi: {driver: csi.liveconfig.internal, readOnly: true, volumeAttributes: {configMap: web}}}
    - {name: plain, configMap: {name: web}}
POD
kubectl wait --for=condition=Ready pod/web --timeout=2m >&2
await /liveconfig/color blue
await /configmap/color blue
sleep 30 # The kubelet looks after a pod every 60 to 90 seconds; the edit comes at no special moment.

edit=(kubectl patch configmap web --patch '{"data":{"color":"green"}}')
begin=$(date +%s%N)
answer=$("${edit[@]}")
answered=$(date +%s%N)
await /liveconfig/color green
await /configmap/color green

echo "# An edit in a real cluster, recorded by docs/pictures/record.sh, which says how to record again."
echo "# $(kubectl version | sed -n 's/^Server Version: /Kubernetes /p'), $(uname -sr | cut -d- -f1), the kubelet with its defaults."
echo "# Each line: milliseconds after the command was typed, the place, and the text that appears there."
{
	echo "0.0 shell kubectl patch configmap web --patch '{\"data\":{\"color\":\"green\"}}'"
	echo "$(after "$(seen /liveconfig/color green)") liveconfig green"
	echo "$(after "$answered") shell $answer"
	echo "$(after "$(seen /configmap/color green)") kubelet green"
} | sort -n -s -k1,1
