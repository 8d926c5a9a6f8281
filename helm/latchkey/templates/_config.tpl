{{/* The mounted latchkey.yaml: the checked values of config, with the path of the embedded store. */}}
{{- define "latchkey.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if not (or $config.upstream $config.upstreams) -}}
{{- fail "latchkey: config.upstream must be the URL of your API, like http://my-api:3000 (or name several under config.upstreams)" -}}
{{- end -}}
{{- if eq (include "latchkey.storeType" .) "lmdb" -}}
{{- $_ := set $config "store" (merge (dict) (default dict $config.store) (dict "type" "lmdb" "path" "/var/lib/latchkey/store")) -}}
{{- end -}}
{{- include "latchkey.refuseSecrets" (dict "value" $config "path" "config" "secret" false) -}}
{{- include "latchkey.refuseMissingSecrets" (dict "config" $config "secrets" .Values.secrets) -}}
{{- include "latchkey.refuseUnwritable" (dict "config" $config "mounts" .Values.extraVolumeMounts) -}}
{{- if .Values.policyShadow -}}
{{- $_ := set $config "policy_shadow" "next-policy.yaml" -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The shadow policy, mounted next to latchkey.yaml. */}}
{{- define "latchkey.policyShadow" -}}
{{- include "latchkey.refuseSecrets" (dict "value" .Values.policyShadow "path" "policyShadow" "secret" false) -}}
{{- toYaml .Values.policyShadow -}}
{{- end -}}

{{- define "latchkey.storeType" -}}
{{- default "lmdb" (default dict .Values.config.store).type -}}
{{- end -}}

{{/*
Keeps secrets out of the ConfigMap. The value of a secret key must be a single expression, and a URL must not have
a user, password, query or fragment; that of a webhook may have no literal path either. The keys of some mappings are
names that the operator chose: a scope "secrets" is none. dict "value" "path" "secret".
*/}}
{{- define "latchkey.refuseSecrets" -}}
{{- $hint := "put it into a Secret, name that under secrets, and write '${file:secrets/NAME/KEY}' here, alone" -}}
{{- $dot := . -}}
{{- $named := regexMatch "\\.(policy\\.(roles|scopes)|upstreams|claims|roles\\.map|authorization)$" .path -}}
{{- if kindIs "map" .value -}}
{{- range $key, $value := .value -}}
{{- $secret := or $dot.secret (and (not $named) (regexMatch "password|secret|sealing_key|passphrase" $key)) -}}
{{- include "latchkey.refuseSecrets" (dict "value" $value "path" (printf "%s.%s" $dot.path $key) "secret" $secret) -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $i, $value := .value -}}
{{- include "latchkey.refuseSecrets" (dict "value" $value "path" (printf "%s.%d" $dot.path $i) "secret" $dot.secret) -}}
{{- end -}}
{{- else if not (kindIs "invalid" .value) -}}
{{- $text := toString .value -}}
{{- if and .secret (not (regexMatch "^\\$\\{[^${}]+\\}$" $text)) -}}
{{- fail (printf "latchkey: %s is a secret: %s" .path $hint) -}}
{{- end -}}
{{- if contains "PRIVATE KEY-----" $text -}}
{{- fail (printf "latchkey: %s must be the path of a file, not the key: %s" .path $hint) -}}
{{- end -}}
{{- $literal := regexReplaceAll "\\$\\{[^${}]*\\}" $text "" -}}
{{- if regexMatch "(?is)(://|\\bhttps?:|\\brediss?:).*[@?#]" $literal -}}
{{- fail (printf "latchkey: %s is a URL with a user, a password, a query or a fragment, which may be secret: %s" .path $hint) -}}
{{- end -}}
{{- if and (regexMatch "^config\\.webhooks\\.[0-9]+\\.url$" .path) (not (regexMatch "(?i)^([a-z]*://[^/\\\\]*)?/*$" $literal)) -}}
{{- fail (printf "latchkey: %s has a path, which may be secret: %s" .path $hint) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses files that Latchkey could not write, because the root file system is read-only. dict "config" "mounts". */}}
{{- define "latchkey.refuseUnwritable" -}}
{{- $writable := list "/var/lib/latchkey/" -}}
{{- range .mounts -}}
{{- $writable = append $writable (printf "%s/" (trimSuffix "/" .mountPath)) -}}
{{- end -}}
{{- $store := default dict .config.store -}}
{{- range $key, $path := dict "store.path" $store.path "store.revocations" $store.revocations "audit.to" (default dict .config.audit).to -}}
{{- if and $path (ne $path "stdout") -}}
{{- $isWritable := false -}}
{{- range $writable -}}
{{- $isWritable = or $isWritable (hasPrefix . $path) -}}
{{- end -}}
{{- if not $isWritable -}}
{{- fail (printf "latchkey: config.%s must be below /var/lib/latchkey or a path in extraVolumeMounts, for Latchkey to write there: %s is read-only" $key $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses paths below secrets/ that are not mounted. */}}
{{- define "latchkey.refuseMissingSecrets" -}}
{{- $mounted := list -}}
{{- range $secret := .secrets -}}
{{- range .keys -}}
{{- $mounted = append $mounted (printf "secrets/%s/%s" $secret.name .) -}}
{{- end -}}
{{- end -}}
{{- range regexFindAll "secrets/[A-Za-z0-9.-]+/[A-Za-z0-9._-]+" (toYaml .config) -1 -}}
{{- if not (has . $mounted) -}}
{{- $parts := splitList "/" . -}}
{{- fail (printf "latchkey: config reads %s, but secrets does not list the key %s of the Secret %s" . (index $parts 2) (index $parts 1)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The port of a listener: dict "config" "name" "default". */}}
{{- define "latchkey.port" -}}
{{- $port := int (default .default (get (default dict (get .config .name)) "port")) -}}
{{- if or (lt $port 1) (gt $port 65535) -}}
{{- fail (printf "latchkey: config.%s.port must be a number from 1 to 65535" .name) -}}
{{- end -}}
{{- $port -}}
{{- end -}}

{{- define "latchkey.publicPort" -}}
{{- include "latchkey.port" (dict "config" .Values.config "name" "listen" "default" 8080) -}}
{{- end -}}

{{/* The URL scheme of the public port. */}}
{{- define "latchkey.publicScheme" -}}
{{- ternary "https" "http" (not (empty (default dict .Values.config.listen).tls)) -}}
{{- end -}}

{{/* Refuses a listener on loopback that others must reach: dict "listener" "name" "why". */}}
{{- define "latchkey.refuseLoopback" -}}
{{- $host := default "127.0.0.1" (default dict .listener).host -}}
{{- if regexMatch "^(127\\.|localhost$|\\[?::1\\]?$)" $host -}}
{{- fail (printf "latchkey: config.%s.host must be 0.0.0.0, not %s: %s" .name $host .why) -}}
{{- end -}}
{{- end -}}

{{- define "latchkey.adminPort" -}}
{{- include "latchkey.refuseLoopback" (dict "listener" .Values.config.admin "name" "admin" "why" "the probes connect from outside the pod") -}}
{{- include "latchkey.port" (dict "config" .Values.config "name" "admin" "default" 9901) -}}
{{- end -}}

{{/* The decision port for HTTP; empty if it is off. */}}
{{- define "latchkey.decisionPort" -}}
{{- if hasKey .Values.config "decision" -}}
{{- $decision := default dict .Values.config.decision -}}
{{- $isNamed := or (hasKey $decision "host") (hasKey $decision "port") -}}
{{- if and (not (kindIs "invalid" .Values.config.decision)) (or $isNamed (not (include "latchkey.grpcPort" .))) -}}
{{- include "latchkey.port" (dict "config" .Values.config "name" "decision" "default" 9902) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The decision port for gRPC; empty if it is off. */}}
{{- define "latchkey.grpcPort" -}}
{{- $decision := default dict .Values.config.decision -}}
{{- if hasKey $decision "grpc" -}}
{{- if not (kindIs "invalid" $decision.grpc) -}}
{{- include "latchkey.port" (dict "config" $decision "name" "grpc" "default" 9903) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A checksum of the settings that need a restart. If it changes, the pods are replaced. Running pods reload all others. */}}
{{- define "latchkey.restartChecksum" -}}
{{- $config := .Values.config -}}
{{- $fixed := pick $config "admin" "decision" "workers" "store" "on_store_failure" "cache" "limits" "audit" "tracing" -}}
{{- $listen := default dict $config.listen -}}
{{- $tls := default dict $listen.tls -}}
{{- $login := default dict $config.login -}}
{{- dict "fixed" $fixed "listen" (pick $listen "host" "port" "h2c") "tls" (empty $tls) "client_ca" (empty $tls.client_ca) "login" (pick $login "max_concurrent_hashes") | toJson | sha256sum -}}
{{- end -}}

{{/* Seconds that a pod needs to stop: it keeps serving, finishes the requests in flight, and writes last uses. */}}
{{- define "latchkey.stopSeconds" -}}
{{- $drain := default "30s" (default dict .Values.config.limits).drain_timeout | toString -}}
{{- if not (regexMatch "^[0-9]+(ms|s|m|h)$" $drain) -}}
{{- fail "latchkey: config.limits.drain_timeout must be a duration like 30s" -}}
{{- end -}}
{{- $number := regexFind "^[0-9]+" $drain | int -}}
{{- $unit := regexFind "[a-z]+$" $drain -}}
{{- $seconds := get (dict "ms" (div (add $number 999) 1000) "s" $number "m" (mul $number 60) "h" (mul $number 3600)) $unit -}}
{{- add (int .Values.preStopSeconds) $seconds 10 -}}
{{- end -}}
