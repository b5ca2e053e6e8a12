{{- define "plimsoll.image" -}}
{{- $root := index . 0 }}{{- $image := (index $root.Values (index . 1)).image -}}
{{- $name := $image.repository -}}
{{- with $image.registry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- if $image.digest }}{{ $name }}@{{ $image.digest }}{{ else }}{{ $name }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Rule files, as the data of a ConfigMap. */ -}}
{{- define "plimsoll.rules" -}}
{{- range $name, $set := .Values.rules }}
{{- if $set.enabled }}
{{- $content := $set.content | default ($.Files.Get (printf "rules/%s.yaml" $name)) }}
{{- if not $content }}{{ fail (printf "rules.%s: no rules of this name are shipped, so it needs content" $name) }}{{ end }}
{{ $name }}.yaml: |
{{ $content | trimSuffix "\n" | indent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A change of the rules changes the name, and so restarts the agents. */ -}}
{{- define "plimsoll.rulesName" -}}
plimsoll-rules-{{ include "plimsoll.rules" . | sha256sum | trunc 10 }}
{{- end }}

{{- /* Flags of the sources of readings, one a line. */ -}}
{{- define "plimsoll.sourceArgs" -}}
{{- $names := dict "agents" "agents" "customMetrics" "custom-metrics" "prometheus" "prometheus" }}
{{- $found := list }}
{{- range $key, $source := .Values.sources }}
{{- if and $source.enabled (or $.Values.agent.enabled (ne $key "agents")) }}{{ $found = append $found (printf "%05d %s" (int $source.order) (get $names $key)) }}{{ end }}
{{- end }}
{{- if not $found }}{{ fail "sources: enable at least one (without agent.enabled: another than agents)" }}{{ end }}
{{- $flag := list }}
{{- range sortAlpha $found }}{{ $flag = append $flag (last (splitList " " .)) }}{{ end }}
{{- if ne (join "," $flag) "agents" }}
--metricsSource={{ join "," $flag }}
{{- end }}
{{- with .Values.sources.prometheus }}
{{- if .enabled }}
{{- if not .url }}{{ fail "sources.prometheus.url: required, for example http://prometheus.monitoring:9090" }}{{ end }}
--prometheusUrl={{ .url }}
{{- if .queries }}
--prometheusQueries=/etc/plimsoll/queries/queries.yaml
{{- end }}
{{- end }}
{{- end }}
{{- $account := printf "%s/%s" .Release.Namespace .Values.agent.serviceAccount.name }}
{{- if ne $account "plimsoll/plimsoll-agent" }}
--agentServiceAccount={{ $account }}
{{- end }}
{{- end }}

{{- /* Affinity of the agents on nodes without GPUs: that of the values, and not all labels of agent.gpu.nodeSelector. */ -}}
{{- define "plimsoll.agentAffinity" -}}
{{- $affinity := deepCopy .Values.agent.affinity }}
{{- if .Values.agent.gpu.enabled }}
{{- $gpu := .Values.agent.gpu.nodeSelector }}
{{- if not $gpu }}{{ fail "agent.gpu.nodeSelector: name a label of the nodes with GPUs" }}{{ end }}
{{- $required := "requiredDuringSchedulingIgnoredDuringExecution" }}
{{- $node := get $affinity "nodeAffinity" | default dict }}
{{- $terms := list }}
{{- range $term := get (get $node $required | default dict) "nodeSelectorTerms" | default (list dict) }}
{{- range $key, $value := $gpu }}
{{- $other := dict "key" $key "operator" "NotIn" "values" (list $value) }}
{{- $expressions := append (get $term "matchExpressions" | default list) $other }}
{{- $terms = append $terms (set (deepCopy $term) "matchExpressions" $expressions) }}
{{- end }}
{{- end }}
{{- $_ := set $node $required (dict "nodeSelectorTerms" $terms) }}
{{- $_ := set $affinity "nodeAffinity" $node }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}
