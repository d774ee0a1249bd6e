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
# CEL cannot read YAML. A text is taken apart into names, each with the key before it, and all that
# is between them. A key has quotes on both sides or on none, and what is inside of quotes or of a
# longer word is no key. Each spec has a variable, because the cost of a variable is limited.
{{- range list 0 1 }}
- name: parts{{ . }}
  expression: |-
    size(variables.texts) <= {{ . }} ? [] : variables.texts[{{ . }}].transformList(i, t, variables.unread[i] ? [] : t.findAll(
      r"""(?:name\s*:\s|"name"\s*:|'name'\s*:)(?:\s|#.*\n|!\S*\s|[|>].*\n)*["']?[a-z0-9][a-z0-9.-]*["']?""" +
      r"""|(?:"[^"n][^"]*"|'[^'n][^']*'|#.*|[^\s"'#n{[,:][^\s{[,:]*|[\s{[,:])+|"[^"]*"|'[^']*'|n[^\s{[,:]*|["']"""))
{{- end }}
- name: parts
  expression: 'variables.texts.transformList(i, l, i == 0 ? variables.parts0 : variables.parts1)'
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
      variables.parts[i].map(l, l.filter(p, p.matches(r"""^(?:name|"name"|'name')\s*:""")).map(p,
        p.find(r"""[a-z0-9][a-z0-9.-]*["']?$""").find("^[a-z0-9.-]*")).join(" "))
    ).join(" ").split(" "))
{{- end }}
