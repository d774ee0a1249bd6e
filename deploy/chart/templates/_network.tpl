{{/* Who may reach the HTTP port, and what may be reached: the values networkPolicy, port. */}}
{{- define "liveconfig.networkPolicyRest" -}}
{{- $policy := index . 0 -}}
{{- $port := index . 1 -}}
policyTypes: [Ingress{{ if $policy.apiServerCIDRs }}, Egress{{ end }}]
{{- if $port }}
ingress:
  - ports:
      - protocol: TCP
        port: {{ $port }}
    {{- with $policy.from }}
    from:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
{{- with $policy.apiServerCIDRs }}
egress:
  - to:
      {{- range . }}
      - ipBlock:
          cidr: {{ . | quote }}
      {{- end }}
  # Names are resolved by whoever does that in the cluster.
  - ports:
      - protocol: UDP
        port: 53
      - protocol: TCP
        port: 53
{{- end }}
{{- end }}
