{{/* What the schema cannot say. Renders nothing, or ends with what to change. */}}
{{- define "liveconfig.checks" -}}
{{- if not .Values.image.repository }}
{{- fail "image.repository is missing: no image is published; build one with `make image`, push it to a registry of yours, and name it with --set image.repository=..." }}
{{- end }}
{{- if not .Values.http.port }}
{{- if .Values.podMonitor.enabled }}
{{- fail "podMonitor.enabled needs http.port: there is nothing to scrape without" }}
{{- end }}
{{- if .Values.service.enabled }}
{{- fail "service.enabled needs http.port: there is nothing to serve without" }}
{{- end }}
{{- end }}
{{- if .Values.controller.enabled }}
{{- include "liveconfig.checkController" . }}
{{- end }}
{{- if and .Values.livenessProbe.enabled (eq (toString .Values.livenessProbe.port) (toString .Values.http.port)) }}
{{- fail "livenessProbe.port and http.port are the same, and one pod has both" }}
{{- end }}
{{- range list "/csi" "/run" "/var/run" }}
{{- if or (eq $.Values.kubeletDir .) (hasPrefix (printf "%s/" .) $.Values.kubeletDir) }}
{{- fail (printf "kubeletDir must not be %s or below it: the driver's container has something else there" .) }}
{{- end }}
{{- end }}
{{- include "liveconfig.checkSockets" . }}
{{- include "liveconfig.checkArgs" . }}
{{- include "liveconfig.checkControllerArgs" . }}
{{- include "liveconfig.checkLabels" (list "podLabels" .Values.podLabels) }}
{{- include "liveconfig.checkLabels" (list "controller.podLabels" .Values.controller.podLabels) }}
{{- include "liveconfig.checkLabels" (list "podMonitor.labels" .Values.podMonitor.labels) }}
{{- include "liveconfig.checkLabels" (list "controller.podMonitor.labels" .Values.controller.podMonitor.labels) }}
{{- include "liveconfig.checkLabels" (list "commonLabels" .Values.commonLabels) }}
{{- include "liveconfig.checkLabels" (list "prometheusRule.labels" .Values.prometheusRule.labels) }}
{{- include "liveconfig.checkLabels" (list "dashboard.labels" .Values.dashboard.labels) }}
{{- if not .Values.securityContext.privileged }}
{{- fail "securityContext.privileged must be true: Kubernetes allows mounts that reach the node to privileged containers only" }}
{{- end }}
{{- end }}

{{/* The labels that objects are found by are the chart's own. */}}
{{- define "liveconfig.checkLabels" -}}
{{- $value := index . 0 }}
{{- range $key := keys (index . 1 | default dict) }}
{{- if has $key (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component") }}
{{- fail (printf "%s must not have %s: objects are found by it" $value $key) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The kernel takes no longer paths of sockets. */}}
{{- define "liveconfig.checkSockets" -}}
{{- range $path := list (printf "%s/csi.sock" (include "liveconfig.pluginDir" .)) (printf "%s/%s-reg.sock" (include "liveconfig.registrationDir" .) .Values.driverName) }}
{{- if gt (len $path) 107 }}
{{- fail (printf "kubeletDir and driverName are too long together: the path of a unix socket has at most 107 bytes, and %s has %d" $path (len $path)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* A flag that is given twice has the last value, and then objects and flags would not agree. */}}
{{- define "liveconfig.checkArgs" -}}
{{- $values := dict "endpoint" "kubeletDir and driverName" "registration-dir" "registrar.enabled" "state-dir" "driverName"
    "http-endpoint" "http.port" "driver-name" "driverName" "kubelet-dir" "kubeletDir"
    "configmap-identity" "identity.configMaps" "secret-identity" "identity.secrets" "share-volumes" "shareVolumes" "publish-timeout" "publishTimeout"
    "resync-interval" "resyncInterval" "recheck-interval" "recheckInterval" "volume-memory" "volumeMemory"
    "selinux-context" "selinuxContext" "v" "log.verbosity" "log-format" "log.format" "node-id" "nothing: it is the node's name" }}
{{- include "liveconfig.checkFlags" (list "extraArgs" .Values.extraArgs $values) }}
{{- end }}

{{/* The controller's, by the same reason. */}}
{{- define "liveconfig.checkControllerArgs" -}}
{{- $values := dict "namespaces" "controller.namespaces" "secrets" "controller.secrets" "driver-name" "driverName"
    "secret-identity" "identity.secrets" "quiet-period" "controller.quietPeriod" "rollout-rate" "controller.rolloutRate"
    "hold-failing" "controller.holdFailing" "progress-deadline" "controller.progressDeadline" "dry-run" "controller.dryRun"
    "compat-reloader" "controller.compat.reloader" "releases" "controller.releases" "evidence" "controller.evidence" "node-taint" "controller.nodeTaint"
    "roles" "controller.roles" "driver-namespace" "nothing: it is the namespace of the release"
    "driver-selector" "nothing: the labels are the chart's"
    "http-endpoint" "controller.http.port" "v" "controller.log.verbosity" "log-format" "controller.log.format"
    "leader-elect" "nothing: there are two controllers while one replaces the other" "lease-name" "the name of the release"
    "lease-namespace" "nothing: it is the namespace of the release" }}
{{- include "liveconfig.checkFlags" (list "controller.extraArgs" .Values.controller.extraArgs $values) }}
{{- end }}

{{/* Refuses flags in a value that follow another one: the value's name, the flags, what each of the others follows. */}}
{{- define "liveconfig.checkFlags" -}}
{{- $name := index . 0 }}
{{- $values := index . 2 }}
{{- range index . 1 }}
{{- $flag := regexReplaceAll "^--?([^=]*).*$" . "${1}" }}
{{- with get $values $flag }}
{{- fail (printf "%s must not have --%s: it follows %s" $name $flag .) }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the schema cannot say of the controller. */}}
{{- define "liveconfig.checkController" -}}
{{- if and .Values.controller.nodeTaint (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail "controller.nodeTaint needs Kubernetes 1.30 or newer: no older one has the policy that keeps the controller from changing anything else of a node" }}
{{- end }}
{{- if and .Values.controller.roles (semverCompare "<1.33.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail "controller.roles needs Kubernetes 1.33 or newer: no older one has the policy that keeps the controller from changing anything else of a Role" }}
{{- end }}
{{- if not .Values.controller.http.port }}
{{- if .Values.service.enabled }}
{{- fail "service.enabled needs controller.http.port: there is no port without" }}
{{- end }}
{{- if .Values.controller.podMonitor.enabled }}
{{- fail "controller.podMonitor.enabled needs controller.http.port: there is no port without" }}
{{- end }}
{{- end }}
{{- end }}
