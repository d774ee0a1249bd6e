{{/* The driver's flags. What the driver takes for granted is not said. */}}
{{- define "liveconfig.flags" -}}
{{- $v := .Values -}}
- --endpoint=unix://{{ include "liveconfig.pluginDir" . }}/csi.sock
{{- if not $v.registrar.enabled }}
- --registration-dir={{ include "liveconfig.registrationDir" . }}
{{- end }}
- --node-id=$(NODE_NAME)
- --state-dir={{ include "liveconfig.stateDir" . }}
{{- with $v.http.port }}
- --http-endpoint=:{{ . }}
{{- end }}
{{- include "liveconfig.flag" (list "driver-name" $v.driverName (printf "csi.%s" (include "liveconfig.domain" .))) }}
{{- include "liveconfig.flag" (list "kubelet-dir" $v.kubeletDir "/var/lib/kubelet") }}
{{- include "liveconfig.flag" (list "configmap-identity" $v.identity.configMaps "driver") }}
{{- include "liveconfig.flag" (list "secret-identity" $v.identity.secrets "pod") }}
{{- include "liveconfig.flag" (list "share-volumes" (toString $v.shareVolumes) "true") }}
{{- include "liveconfig.flag" (list "publish-timeout" $v.publishTimeout "") }}
{{- include "liveconfig.flag" (list "resync-interval" $v.resyncInterval "") }}
{{- include "liveconfig.flag" (list "recheck-interval" $v.recheckInterval "") }}
{{- include "liveconfig.flag" (list "volume-memory" $v.volumeMemory "") }}
{{- include "liveconfig.flag" (list "selinux-context" $v.selinuxContext "system_u:object_r:container_file_t:s0") }}
{{- include "liveconfig.flag" (list "v" (toString $v.log.verbosity) "2") }}
{{- include "liveconfig.flag" (list "log-format" $v.log.format "text") }}
{{- range $v.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* One flag, unless its value is the driver's default: name, value, default. */}}
{{- define "liveconfig.flag" -}}
{{- if ne (index . 1) (index . 2) }}
- {{ printf "%s%s=%s" (eq (index . 0) "v" | ternary "-" "--") (index . 0) (index . 1) | quote }}
{{- end }}
{{- end }}
