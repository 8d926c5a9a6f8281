{{/*
Templates for charts that depend on this one with mode: sidecar. Pass .Subcharts.latchkey to each:

  containers:
    {{- include "latchkey.sidecar.container" .Subcharts.latchkey | nindent 8 }}
*/}}

{{/* An item for the list containers. */}}
{{- define "latchkey.sidecar.container" -}}
{{- include "latchkey.sidecar.check" . -}}
- {{ include "latchkey.container" . | nindent 2 | trim }}
{{- end -}}

{{/* An item for the list initContainers: it starts before your API and stops after it. */}}
{{- define "latchkey.sidecar.initContainer" -}}
{{- include "latchkey.sidecar.check" . -}}
- {{ include "latchkey.container" . | nindent 2 | trim }}
  restartPolicy: Always
{{- end -}}

{{/* Items for the list volumes. */}}
{{- define "latchkey.sidecar.volumes" -}}
{{ include "latchkey.configVolume" . }}
{{- with include "latchkey.dataVolume" . }}
{{ . }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Annotations for the pod template. They change with settings that need a restart, so that the pods are replaced. */}}
{{- define "latchkey.sidecar.podAnnotations" -}}
latchkey/restart-checksum: {{ include "latchkey.restartChecksum" . }}
{{- end -}}

{{/* Seconds that Latchkey needs to stop; add the time that your API needs. */}}
{{- define "latchkey.sidecar.stopSeconds" -}}
{{- include "latchkey.stopSeconds" . -}}
{{- end -}}

{{- define "latchkey.sidecar.check" -}}
{{- if ne .Values.mode "sidecar" -}}
{{- fail "latchkey: set latchkey.mode to sidecar; otherwise the chart runs a gateway in addition to your Deployment" -}}
{{- end -}}
{{- if and (eq (include "latchkey.storeType" .) "lmdb") (not .Values.persistence.existingClaim) -}}
{{- fail "latchkey: sidecars need config.store.type postgres or redis: the embedded store would be lost with each pod (with one pod, persistence.existingClaim can name a claim for it)" -}}
{{- end -}}
{{- end -}}
