{{/* The container, the same in a gateway and in a sidecar. */}}
{{- define "latchkey.container" -}}
name: latchkey
image: {{ include "latchkey.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, --config, /etc/latchkey/latchkey.yaml]
{{- with .Values.env }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: lk-public
    containerPort: {{ include "latchkey.publicPort" . }}
  - name: lk-admin
    containerPort: {{ include "latchkey.adminPort" . }}
  {{- with include "latchkey.decisionPort" . }}
  - name: lk-decision
    containerPort: {{ . }}
  {{- end }}
  {{- with include "latchkey.grpcPort" . }}
  - name: lk-grpc
    containerPort: {{ . }}
  {{- end }}
startupProbe:
  httpGet: { path: /healthz, port: lk-admin }
  {{- toYaml .Values.startupProbe | nindent 2 }}
livenessProbe:
  httpGet: { path: /healthz, port: lk-admin }
  {{- toYaml .Values.livenessProbe | nindent 2 }}
readinessProbe:
  httpGet: { path: /readyz, port: lk-admin }
  {{- toYaml .Values.readinessProbe | nindent 2 }}
lifecycle:
  preStop:
    sleep: { seconds: {{ int .Values.preStopSeconds }} }
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  - name: latchkey-config
    mountPath: /etc/latchkey
    readOnly: true
  {{- if include "latchkey.writesData" . }}
  - name: latchkey-data
    mountPath: /var/lib/latchkey
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* One volume for configuration and Secrets, mounted as a folder: the kubelet swaps all of it at once, and Latchkey reloads. */}}
{{- define "latchkey.configVolume" -}}
- name: latchkey-config
  projected:
    defaultMode: 292 # 0444
    sources:
      - configMap:
          name: {{ include "latchkey.fullname" . }}
          items:
            - { key: latchkey.yaml, path: latchkey.yaml }
            {{- if .Values.policyShadow }}
            - { key: next-policy.yaml, path: next-policy.yaml }
            {{- end }}
      {{- range $secret := .Values.secrets }}
      - secret:
          name: {{ $secret.name }}
          items:
            {{- range $secret.keys }}
            - { key: {{ . | quote }}, path: {{ printf "secrets/%s/%s" $secret.name . | quote }} }
            {{- end }}
      {{- end }}
{{- end -}}

{{/* The volume of the embedded store, unless the StatefulSet has a claim template for it, or of other files. */}}
{{- define "latchkey.dataVolume" -}}
{{- $isEmbedded := eq (include "latchkey.storeType" .) "lmdb" -}}
{{- if and $isEmbedded .Values.persistence.existingClaim -}}
- name: latchkey-data
  persistentVolumeClaim:
    claimName: {{ .Values.persistence.existingClaim }}
{{- else if and (include "latchkey.writesData" .) (not (and $isEmbedded .Values.persistence.enabled)) -}}
- name: latchkey-data
  emptyDir: {}
{{- end -}}
{{- end -}}

{{/* Whether Latchkey writes below /var/lib/latchkey. */}}
{{- define "latchkey.writesData" -}}
{{- if or (eq (include "latchkey.storeType" .) "lmdb") (contains "/var/lib/latchkey/" (toYaml .Values.config)) -}}true{{- end -}}
{{- end -}}

{{- define "latchkey.podTemplate" -}}
metadata:
  annotations:
    latchkey/restart-checksum: {{ include "latchkey.restartChecksum" . }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "latchkey.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "latchkey.serviceAccountName" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ default (include "latchkey.stopSeconds" .) (int .Values.terminationGracePeriodSeconds) }}
  {{- with .Values.dnsPolicy }}
  dnsPolicy: {{ . }}
  {{- end }}
  {{- with .Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.hostAliases }}
  hostAliases:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - {{ include "latchkey.container" . | nindent 6 | trim }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "latchkey.configVolume" . | nindent 4 }}
    {{- with include "latchkey.dataVolume" . }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- $selector := dict "matchLabels" (include "latchkey.selectorLabels" $ | fromYaml) }}
    {{- range . }}
    - {{ toYaml (merge (dict) . (dict "labelSelector" $selector)) | nindent 6 | trim }}
    {{- end }}
  {{- end }}
{{- end -}}
