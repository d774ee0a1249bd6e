{{/* What objects are called and labelled, and where things are on the node. */}}

{{/* The domain of annotations, labels and taints, as pkg/api has it. */}}
{{- define "liveconfig.domain" -}}
liveconfig.internal
{{- end }}

{{/* What names of objects begin with. */}}
{{- define "liveconfig.prefix" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else if .Values.nameOverride }}{{ .Release.Name }}-{{ .Values.nameOverride }}
{{- else }}{{ .Release.Name }}
{{- end }}
{{- end }}

{{- define "liveconfig.name" -}}
{{ include "liveconfig.prefix" . }}-driver
{{- end }}

{{- define "liveconfig.nameInNamespace" -}}
{{ include "liveconfig.name" . }}-in-namespace
{{- end }}

{{/* By these labels objects are found. The plugin of kubectl knows them. */}}
{{- define "liveconfig.selector" -}}
app.kubernetes.io/name: liveconfig
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "liveconfig.labels" -}}
{{ include "liveconfig.selector" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "liveconfig.driverSelector" -}}
{{ include "liveconfig.selector" . }}
app.kubernetes.io/component: driver
{{- end }}

{{- define "liveconfig.driverLabels" -}}
{{ include "liveconfig.labels" . }}
app.kubernetes.io/component: driver
{{- end }}

{{- define "liveconfig.driverAccount" -}}
{{ .Values.serviceAccount.name | default (include "liveconfig.name" .) }}
{{- end }}

{{/* The image of a sidecar: repository and tag. */}}
{{- define "liveconfig.sidecarImage" -}}
{{ .repository }}:{{ .tag }}
{{- end }}

{{- define "liveconfig.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "liveconfig.pluginDir" -}}
{{ .Values.kubeletDir }}/plugins/{{ .Values.driverName }}
{{- end }}

{{- define "liveconfig.registrationDir" -}}
{{ .Values.kubeletDir }}/plugins_registry
{{- end }}

{{- define "liveconfig.stateDir" -}}
/run/{{ .Values.driverName }}
{{- end }}

{{/* Pods' tokens are needed unless the driver reads everything itself. The result is empty for no. */}}
{{- define "liveconfig.tokens" -}}
{{- if or (eq .Values.identity.secrets "pod") (eq .Values.identity.configMaps "pod") }}true{{ end }}
{{- end }}
