{{/* The CSI project's sidecars, as far as they are wanted. */}}
{{- define "liveconfig.sidecars" -}}
{{- with .Values.registrar }}
{{- if .enabled }}
- name: registrar
  image: {{ include "liveconfig.sidecarImage" .image | quote }}
  args:
    - --csi-address=/csi/csi.sock
    - --kubelet-registration-path={{ include "liveconfig.pluginDir" $ }}/csi.sock
  {{- include "liveconfig.sidecarRest" . | nindent 2 }}
    - name: registration
      mountPath: /registration
{{- end }}
{{- end }}
{{- with .Values.livenessProbe }}
{{- if .enabled }}
- name: liveness-probe
  image: {{ include "liveconfig.sidecarImage" .image | quote }}
  args:
    - --csi-address=/csi/csi.sock
    - --health-port={{ .port }}
  {{- include "liveconfig.sidecarRest" . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* What both have. A sidecar reaches the driver's socket as root, whose it is, and needs nothing else of that. */}}
{{- define "liveconfig.sidecarRest" -}}
{{- with .securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - name: socket
    mountPath: /csi
{{- end }}
