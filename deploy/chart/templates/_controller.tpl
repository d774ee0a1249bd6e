{{/* What the rollout controller is called, may do and is told. */}}

{{- define "liveconfig.controllerName" -}}
{{ include "liveconfig.prefix" . }}-controller
{{- end }}

{{- define "liveconfig.controllerAccount" -}}
{{ .Values.controller.serviceAccount.name | default (include "liveconfig.controllerName" .) }}
{{- end }}

{{- define "liveconfig.controllerNameInNamespace" -}}
{{ include "liveconfig.controllerName" . }}-in-namespace
{{- end }}

{{- define "liveconfig.controllerNameOfTaint" -}}
{{ include "liveconfig.controllerName" . }}-node-taint
{{- end }}

{{- define "liveconfig.controllerNameOfCopies" -}}
{{ include "liveconfig.controllerName" . }}-copies
{{- end }}

{{- define "liveconfig.controllerNameOfStable" -}}
{{ include "liveconfig.controllerName" . }}-stable
{{- end }}

{{- define "liveconfig.controllerNameOfRoles" -}}
{{ include "liveconfig.controllerName" . }}-roles
{{- end }}

{{- define "liveconfig.controllerNameOfWorkloads" -}}
{{ include "liveconfig.controllerName" . }}-workloads
{{- end }}

{{- define "liveconfig.controllerNameOfRevisions" -}}
{{ include "liveconfig.controllerName" . }}-revisions
{{- end }}

{{- define "liveconfig.controllerSelector" -}}
{{ include "liveconfig.selector" . }}
app.kubernetes.io/component: controller
{{- end }}

{{- define "liveconfig.controllerLabels" -}}
{{ include "liveconfig.labels" . }}
app.kubernetes.io/component: controller
{{- end }}

{{/* What it may do in the namespaces of workloads. A dry run only reads. */}}
{{- define "liveconfig.controllerRules" -}}
{{- $c := .Values.controller -}}
# Workloads that are triggered: they are watched, and their pod templates are pointed to copies.
- apiGroups: [apps]
  resources: [deployments, statefulsets, daemonsets]
  verbs: [get, list, watch{{ if not $c.dryRun }}, patch{{ end }}]
# Their revisions: a copy belongs to those whose pods use it, and one that named sources for a moment goes.
- apiGroups: [apps]
  resources: [replicasets, controllerrevisions]
  verbs: [get, list, watch{{ if not $c.dryRun }}, delete{{ end }}]
# Sources are watched. Copies are made, get their owners, and are deleted when nothing uses them.
- apiGroups: [""]
  resources: [configmaps{{ if $c.secrets }}, secrets{{ end }}]
  verbs: [get, list, watch{{ if not $c.dryRun }}, create, patch, delete{{ end }}]
{{- if $c.roles }}
# The names of copies in Roles that ask for them. The API server lets it write only rules that allow what it may do itself, and
# a policy only names of copies.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles]
  verbs: [get, list, watch{{ if not $c.dryRun }}, patch{{ end }}]
{{- end }}
{{- if $c.releases }}
# Pods that use a released object: they must stay ready when they get an edit. And pods of a StatefulSet whose rollout waits for
# one that somebody has to delete.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- end }}
{{- if not $c.dryRun }}
{{- if and $c.secrets (eq .Values.identity.secrets "pod") }}
# Whether the pods' service account may get the copy of a Secret, which they read with their own tokens. The local kind of
# review is asked of one namespace, so a Role can allow it.
- apiGroups: [authorization.k8s.io]
  resources: [localsubjectaccessreviews]
  verbs: [create]
{{- end }}
# What was rolled out, held back or undone is shown on workloads and sources.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- end }}

{{/* Whether it asks drivers. A dry run shows no edit to anybody. */}}
{{- define "liveconfig.controllerAsks" -}}
{{- $c := .Values.controller -}}
{{- if and $c.releases $c.evidence (not $c.dryRun) }}true{{ end }}
{{- end }}

{{/* Its flags. What it takes for granted is not said. */}}
{{- define "liveconfig.controllerFlags" -}}
{{- $c := .Values.controller -}}
{{- with $c.http.port }}
- --http-endpoint=:{{ . }}
{{- end }}
{{- include "liveconfig.flag" (list "namespaces" (join "," $c.namespaces) "") }}
{{- include "liveconfig.flag" (list "secrets" (toString $c.secrets) "true") }}
{{- include "liveconfig.flag" (list "driver-name" .Values.driverName (printf "csi.%s" (include "liveconfig.domain" .))) }}
{{- include "liveconfig.flag" (list "secret-identity" .Values.identity.secrets "pod") }}
{{- include "liveconfig.flag" (list "quiet-period" $c.quietPeriod "") }}
{{- include "liveconfig.flag" (list "rollout-rate" (toString $c.rolloutRate) "10") }}
{{- include "liveconfig.flag" (list "hold-failing" (toString $c.holdFailing) "true") }}
{{- include "liveconfig.flag" (list "progress-deadline" $c.progressDeadline "") }}
{{- include "liveconfig.flag" (list "dry-run" (toString $c.dryRun) "false") }}
{{- include "liveconfig.flag" (list "compat-reloader" (toString $c.compat.reloader) "false") }}
{{- include "liveconfig.flag" (list "releases" (toString $c.releases) "true") }}
{{- if include "liveconfig.controllerAsks" . }}
- "--evidence"
{{- end }}
{{- include "liveconfig.flag" (list "node-taint" (toString $c.nodeTaint) "false") }}
{{- include "liveconfig.flag" (list "roles" (toString $c.roles) "false") }}
{{- if $c.nodeTaint }}
- {{ printf "--driver-selector=app.kubernetes.io/instance=%s,app.kubernetes.io/component=driver" .Release.Name | quote }}
{{- end }}
{{- include "liveconfig.flag" (list "lease-name" (include "liveconfig.controllerName" .) "liveconfig-controller") }}
{{- include "liveconfig.flag" (list "v" (toString $c.log.verbosity) "2") }}
{{- include "liveconfig.flag" (list "log-format" $c.log.format "text") }}
{{- range $c.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
