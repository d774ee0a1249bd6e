{{/* What the policies about workloads and about their revisions share. */}}

{{/*
The variables that read the names of sources in the list of pod specs that the variable specs is. The second argument is an
expression: whether the text t, of the volume i, is not to be read. The variable names has a list of names for each spec. The
same place of two specs has the same index, if the specs differ in nothing but names.
*/}}
{{- define "liveconfig.policyOfNames" -}}
{{- $driver := (index . 0).Values.driverName -}}
- name: texts
  expression: |-
    variables.specs.map(s, s.?volumes.orValue([]).map(v,
      v.?csi.?driver.orValue("") == "{{ $driver }}" ? v.csi.?volumeAttributes.?sources.orValue("") : ""))
- name: unread
  expression: {{ printf "variables.texts[0].transformList(i, t, %s)" (index . 1) | squote }}
# CEL cannot read YAML. A text is taken apart into names, each with the key before it, and all that is between them.
- name: parts
  expression: |-
    variables.texts.map(l, l.transformList(i, t, variables.unread[i] ? [] : t.findAll(
      r'name[\x22\x27]?\s*:(?:\s|#[^\n]*\n|!\S*\s|[|>][^\n]*\n)*[\x22\x27]?[a-z0-9][a-z0-9.-]*|(?:[^n]|n[^an])+|n')))
- name: names
  expression: |-
    variables.specs.transformList(i, s, (
      s.?volumes.orValue([]).map(v, [
        v.?configMap.?name.orValue(""), v.?secret.?secretName.orValue(""),
        v.?csi.?volumeAttributes.?configMap.orValue(""), v.?csi.?volumeAttributes.?secret.orValue("")
      ].join(" ")) +
      s.?volumes.orValue([]).filter(v, has(v.projected) && type(v.projected.?sources.orValue("")) == list).map(v,
        v.projected.sources.map(p, p.?configMap.?name.orValue("") + " " + p.?secret.?name.orValue("")).join(" ")) +
      (s.?initContainers.orValue([]) + s.?containers.orValue([])).map(c,
        c.?envFrom.orValue([]).map(e,
          e.?configMapRef.?name.orValue("") + " " + e.?secretRef.?name.orValue("")).join(" ") + " " +
        c.?env.orValue([]).filter(e, has(e.valueFrom)).map(e,
          e.valueFrom.?configMapKeyRef.?name.orValue("") + " " + e.valueFrom.?secretKeyRef.?name.orValue("")).join(" ")) +
      variables.parts[i].map(l, l.filter(p, p.startsWith("name")).map(p, p.find("[a-z0-9][a-z0-9.-]*$")).join(" "))
    ).join(" ").split(" "))
{{- end }}
