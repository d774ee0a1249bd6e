{{/* What objects are called and labelled, and where things are on the node. */}}

{{- define "liveconfig.name" -}}
{{ .Release.Name }}-driver
{{- end }}

{{- define "liveconfig.nameInNamespace" -}}
{{ include "liveconfig.name" . }}-in-namespace
{{- end }}

{{- define "liveconfig.labels" -}}
app.kubernetes.io/name: liveconfig
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "liveconfig.driverLabels" -}}
{{ include "liveconfig.labels" . }}
app.kubernetes.io/component: driver
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
