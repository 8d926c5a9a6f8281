{{/* latchkey.yaml as it is mounted: the values with the place of the embedded store, once they make sense. */}}
{{- define "latchkey.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if not (or $config.upstream $config.upstreams) -}}
{{- fail "latchkey: config.upstream must be the URL of your API, like http://my-api:3000 (or name several under config.upstreams)" -}}
{{- end -}}
{{- if eq (include "latchkey.storeType" .) "lmdb" -}}
{{- $_ := set $config "store" (merge (dict) (default dict $config.store) (dict "type" "lmdb" "path" "/var/lib/latchkey/store")) -}}
{{- end -}}
{{- include "latchkey.refuseSecrets" $config -}}
{{- include "latchkey.refuseMissingSecrets" (dict "config" $config "secrets" .Values.secrets) -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "latchkey.storeType" -}}
{{- default "lmdb" (default dict .Values.config.store).type -}}
{{- end -}}

{{/* A ConfigMap is no place for secrets. */}}
{{- define "latchkey.refuseSecrets" -}}
{{- $store := default dict .store -}}
{{- range $key := list "password" "sealing_key" -}}
{{- $value := get $store $key -}}
{{- if and $value (not (contains "${" $value)) -}}
{{- fail (printf "latchkey: config.store.%s is a secret: put it into a Secret, name that under secrets, and write '${file:secrets/NAME/KEY}' here" $key) -}}
{{- end -}}
{{- end -}}
{{- if regexMatch "://[^/@\\s\"']*:[^/@\\s\"'$]+@" (toYaml .) -}}
{{- fail "latchkey: a URL in config holds a password: put the URL into a Secret, name that under secrets, and write '${file:secrets/NAME/KEY}' here" -}}
{{- end -}}
{{- end -}}

{{/* What config reads from a Secret has to be mounted. */}}
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

{{- define "latchkey.adminPort" -}}
{{- include "latchkey.port" (dict "config" .Values.config "name" "admin" "default" 9901) -}}
{{- end -}}

{{/* Empty when nobody asks for decisions. */}}
{{- define "latchkey.decisionPort" -}}
{{- if hasKey .Values.config "decision" -}}
{{- if not (kindIs "invalid" .Values.config.decision) -}}
{{- include "latchkey.port" (dict "config" .Values.config "name" "decision" "default" 9902) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Changes when a setting does that a running process can't take over: then the pods are replaced. Those left out here are reloaded. */}}
{{- define "latchkey.restartChecksum" -}}
{{- $config := .Values.config -}}
{{- $rest := omit $config "directory" "sessions" "tokens" "rate_limit" "proxy" "upstream" "upstreams" "identity" "interface" "policy" "routes" "default_route" "listen" "login" "log" -}}
{{- $listen := omit (default dict $config.listen) "trusted_proxies" -}}
{{- $login := omit (default dict $config.login) "max_failures" "lockout" -}}
{{- dict "rest" $rest "listen" $listen "login" $login | toJson | sha256sum -}}
{{- end -}}

{{/* Seconds that a pod needs to stop: it serves on, finishes what is in flight, and writes last uses down. */}}
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
