import { existsSync, readFileSync } from 'node:fs';
import { parse } from 'yaml';

export const CHART = 'helm/latchkey';
export const EXAMPLE = 'examples/kubernetes/chart';
const ciValues = (name: string) => parse(readFileSync(`${CHART}/ci/${name}-values.yaml`, 'utf8')) as object;

/** Whether the chart ships alerts for Prometheus and a dashboard for Grafana. */
export const HAS_ALERTS = existsSync(`${CHART}/files/alerts.yaml`);
export const HAS_DASHBOARD = existsSync(`${CHART}/files/dashboard.json`);

const upstream = 'http://my-api:3000';
const redis = { type: 'redis', url: 'redis://redis:6379/0' };
const monitoring = [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }];

/** Enables every feature of the gateway mode at once. */
export const EVERYTHING = {
  replicas: 2,
  nameOverride: 'guard',
  image: { repository: 'registry.example.com/latchkey', digest: `sha256:${'a'.repeat(64)}`, pullPolicy: 'Always' },
  imagePullSecrets: [{ name: 'registry' }],
  config: {
    upstream,
    store: { ...redis, password: '${REDIS_PASSWORD}' },
    decision: { host: '0.0.0.0', grpc: { host: '0.0.0.0' } },
    listen: { port: 8443, tls: { cert: 'secrets/api-tls/tls.crt', key: 'secrets/api-tls/tls.key' } },
    limits: { drain_timeout: '2m' },
    cache: { size: 1_000_000 },
  },
  secrets: [{ name: 'api-tls', keys: ['tls.crt', 'tls.key'] }],
  policyShadow: { routes: [{ path: '/reports/*', action: 'reports' }], default_route: { auth: 'deny' } },
  env: [{ name: 'REDIS_PASSWORD', valueFrom: { secretKeyRef: { name: 'redis', key: 'password' } } }],
  envFrom: [{ configMapRef: { name: 'proxies' } }],
  commonLabels: { 'example.com/team': 'edge' },
  updateStrategy: { type: 'Recreate' },
  namespaceOverride: 'edge',
  revisionHistoryLimit: 3,
  deploymentAnnotations: { 'reloader.example.com/auto': 'true' },
  terminationGracePeriodSeconds: 300,
  dnsPolicy: 'None',
  dnsConfig: { nameservers: ['10.0.0.10'] },
  hostAliases: [{ ip: '10.0.0.11', hostnames: ['idp.internal'] }],
  initContainers: [{ name: 'wait', image: 'busybox:1', command: ['true'] }],
  extraContainers: [{ name: 'shipper', image: 'shipper:1' }],
  extraObjects: [{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: '{{ .Release.Name }}-one' }, data: { a: 'b' } }, 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: "{{ .Release.Name }}-two" }\n'],
  startupProbe: { failureThreshold: 120 },
  readinessProbe: { initialDelaySeconds: 3 },
  extraVolumes: [{ name: 'audit', emptyDir: {} }],
  extraVolumeMounts: [{ name: 'audit', mountPath: '/var/log/latchkey' }],
  service: { type: 'LoadBalancer', port: 443, annotations: { team: 'a' }, labels: { tier: 'edge' }, nodePort: 30443, loadBalancerClass: 'example.com/internal', loadBalancerSourceRanges: ['203.0.113.0/24'], externalTrafficPolicy: 'Local' },
  ingress: { enabled: true, className: 'nginx', annotations: { team: 'a' }, hosts: ['a.example.com', 'b.example.com'], path: '/v1', pathType: 'Exact', tls: [{ secretName: 'web', hosts: ['a.example.com'] }] },
  httpRoute: { enabled: true, annotations: { team: 'a' }, parentRefs: [{ name: 'gateway', namespace: 'infra' }], hostnames: ['a.example.com'] },
  serviceAccount: { annotations: { team: 'a' } },
  podAnnotations: { team: 'a' },
  podLabels: { team: 'a' },
  nodeSelector: { disk: 'fast' },
  tolerations: [{ key: 'edge', operator: 'Exists' }],
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'edge', operator: 'Exists' }] }] } } },
  priorityClassName: 'high',
  autoscaling: { enabled: true, targetMemoryUtilizationPercentage: 80, behavior: { scaleDown: { stabilizationWindowSeconds: 600 } } },
  podDisruptionBudget: { minAvailable: '50%' },
  networkPolicy: { publicFrom: monitoring, adminFrom: monitoring, decisionFrom: monitoring, egress: [{ to: [{ ipBlock: { cidr: '10.0.0.0/8' } }] }] },
  serviceMonitor: { enabled: true, scrapeTimeout: '5s', namespace: 'monitoring', labels: { release: 'prometheus' } },
  prometheusRule: { enabled: HAS_ALERTS, labels: { release: 'prometheus' } },
  dashboard: { enabled: HAS_DASHBOARD, annotations: { folder: 'Latchkey' } },
}; // prettier-ignore

/** Values that must render to valid objects. */
export const RIGHT: readonly { readonly name: string; readonly chart: string; readonly release?: string; readonly values: object }[] = [
  { name: 'gateway', chart: CHART, values: ciValues('gateway') },
  { name: 'fleet', chart: CHART, values: ciValues('redis') },
  { name: 'fleet on PostgreSQL', chart: CHART, values: ciValues('postgres') },
  { name: 'everything', chart: CHART, release: 'everything', values: EVERYTHING },
  { name: 'names beyond the length limit', chart: CHART, release: 'r'.repeat(53), values: { config: { upstream }, nameOverride: 'n'.repeat(60) } },
  { name: 'no persistence', chart: CHART, values: { config: { upstream }, persistence: { enabled: false } } },
  { name: 'an existing claim', chart: CHART, values: { config: { upstream }, persistence: { existingClaim: 'tokens' } } },
  { name: 'a claim with annotations', chart: CHART, values: { config: { upstream }, updateStrategy: { type: 'OnDelete' }, persistence: { annotations: { 'helm.sh/resource-policy': 'keep' } } } },
  { name: 'nothing optional', chart: CHART, values: { config: { upstreams: { api: { url: upstream } }, store: redis }, networkPolicy: { enabled: false }, podDisruptionBudget: { enabled: false }, serviceAccount: { create: false }, topologySpreadConstraints: [] } },
  { name: 'gRPC decision port only', chart: CHART, values: { config: { upstream, decision: { grpc: { host: '0.0.0.0' } } }, networkPolicy: { decisionFrom: monitoring } } },
  { name: 'sidecar', chart: EXAMPLE, release: 'shop', values: {} },
  { name: 'sidecar, monitored', chart: EXAMPLE, release: 'shop', values: { latchkey: { serviceMonitor: { enabled: true }, networkPolicy: { adminFrom: monitoring }, sidecar: { podLabels: { app: 'my-api' } } } } },
]; // prettier-ignore

/** Values that must be refused, with the expected error. */
export const REFUSED: readonly (readonly [string, object, RegExp, string?])[] = [
  ['no upstream', {}, /config\.upstream must be the URL of your API/],
  ['several pods with an embedded store', { replicas: 2, config: { upstream } }, /several replicas need config\.store\.type postgres or redis/],
  ['autoscaling with an embedded store', { autoscaling: { enabled: true }, config: { upstream } }, /several replicas need config\.store\.type postgres or redis/],
  ['a password', { config: { upstream, store: { ...redis, password: 'geheim' } } }, /config\.store\.password is a secret/],
  ['a sealing key', { config: { upstream, store: { ...redis, sealing_key: 'ab' } } }, /config\.store\.sealing_key is a secret/],
  ['a Secret that is not mounted', { config: { upstream, directory: { file: 'secrets/users/directory.yaml' } } }, /secrets does not list the key directory\.yaml of the Secret users/],
  ['a key that is not mounted', { config: { upstream, store: { ...redis, password: '${file:secrets/r/password}' } }, secrets: [{ name: 'r', keys: ['other'] }] }, /secrets does not list the key password of the Secret r/],
  ['a port out of range', { config: { upstream, admin: { port: 70_000 } } }, /config\.admin\.port must be a number/],
  ['probes that cannot connect', { config: { upstream, admin: { host: '127.0.0.1' } } }, /config\.admin\.host must be 0\.0\.0\.0, not 127\.0\.0\.1: the probes/],
  ['a decision port that its peers cannot reach', { config: { upstream, decision: { port: 9902 } }, networkPolicy: { decisionFrom: monitoring } }, /config\.decision\.host must be 0\.0\.0\.0/],
  ['a gRPC decision port that its peers cannot reach', { config: { upstream, decision: { grpc: { host: 'localhost' } } }, networkPolicy: { decisionFrom: monitoring } }, /config\.decision\.grpc\.host must be 0\.0\.0\.0, not localhost/],
  ['revocations in the read-only folder', { config: { upstream, store: { ...redis, revocations: './revocations' } } }, /config\.store\.revocations must be below \/var\/lib\/latchkey or a path in extraVolumeMounts/],
  ['an audit log in the read-only folder', { config: { upstream, audit: { to: '/var/log/audit.log' } } }, /config\.audit\.to must be below/],
  ['an embedded store outside its volume', { config: { upstream, store: { type: 'lmdb', path: '/data' } } }, /config\.store\.path must be below/],
  ['an invalid drain timeout', { config: { upstream, limits: { drain_timeout: 'soon' } } }, /drain_timeout must be a duration/],
  ['a monitor that the network policy blocks', { config: { upstream }, serviceMonitor: { enabled: true } }, /networkPolicy\.adminFrom must admit Prometheus/],
  ['an ingress without hosts', { config: { upstream }, ingress: { enabled: true } }, /ingress\.hosts must name the hosts/],
  ['an HTTPRoute without a gateway', { config: { upstream }, httpRoute: { enabled: true } }, /httpRoute\.parentRefs must name a Gateway/],
  ['autoscaling without a metric', { config: { upstream, store: redis }, autoscaling: { enabled: true, targetCPUUtilizationPercentage: 0 } }, /autoscaling needs targetCPUUtilizationPercentage or targetMemoryUtilizationPercentage/],
  ['a sidecar in mode gateway', { latchkey: { mode: 'gateway' } }, /set latchkey\.mode to sidecar/, EXAMPLE],
  ['sidecars with an embedded store', { latchkey: { config: { store: null } } }, /sidecars need config\.store\.type postgres or redis/, EXAMPLE],
  ['sidecars without pod labels to select', { latchkey: { sidecar: { podLabels: null } } }, /sidecar\.podLabels must be the labels of your pods/, EXAMPLE],
]; // prettier-ignore

/**
 * Values that a secret key must refuse: only a single expression, with nothing around it, is valid.
 */
export const NO_EXPRESSIONS: readonly unknown[] = [
  'geheim', '', 'abc${def', '${', '${}', 'x${REDIS_PASSWORD}', '${REDIS_PASSWORD}x', '${A}${B}', '$${REDIS_PASSWORD}',
  ' ${REDIS_PASSWORD}', '${REDIS_PASSWORD}\n', 'a\n${REDIS_PASSWORD}', '${A${B}}', '$REDIS_PASSWORD', 12_345, true, ['geheim'], { value: 'geheim' },
]; // prettier-ignore

/** URLs that contain, or may contain, a secret. */
export const TELLING_URLS: readonly string[] = [
  'redis://u:geheim@h', 'redis://:geheim@h:6379/0', 'redis://:pa$sword@h', 'redis://:pa/ss@h', "redis://:pa'ss@h", 'redis://:pa"ss@h',
  'redis://:pa@ss@h', 'redis://:pa ss@h', 'redis://:pa#ss@h', 'redis://:pa?ss@h', 'redis://geheim@h', 'REDIS://u:geheim@h', ' redis://u:geheim@h',
  'redis://:${abc@h', 'redis://:${A}geheim@h', 'redis://:${A}@h', 'redis://h?password=geheim', 'redis://h/0#geheim', 'rediss://u:geheim@h', 'redis:u:geheim@h',
  'http://u:geheim@h', 'https://h/?api_key=geheim', 'https://h?api_key=geheim', 'https:u:geheim@h', 'http:\\\\u:geheim@h', 'https://h/a\n?b',
]; // prettier-ignore

/** Values that the schema must refuse. */
export const MISFITS: readonly object[] = [
  { replica: 2 },
  { replicas: '2' },
  { mode: 'both' },
  { image: { repo: 'x' } },
  { image: { digest: 'sha256:abc' } },
  { config: { store: { type: 'mysql' } } },
  { config: { admin: { port: 0 } } },
  { config: { limits: { drain_timeout: 30 } } },
  { config: { limts: {} } },
  { config: { listen: { trusted_proxy: [] } } },
  { config: { store: { type: 'redis', pasword: '${P}' } } },
  { config: { workers: [2] } },
  { policyShadow: { rotes: [] } },
  { service: { labels: { tier: 1 } } },
  { dnsPolicy: 'ClusterLast' },
  { serviceMonitor: { scrapeTimeout: '5' } },
  { secrets: ['latchkey-redis'] },
  { secrets: [{ name: 'x', keys: [] }] },
  { service: { type: 'ExternalName' } },
  { service: { port: 0 } },
  { ingress: { hosts: 'api.example.com' } },
  { podLabels: { tier: 1 } },
  { preStopSeconds: 0 },
  { networkPolicy: { from: [] } },
  { podDisruptionBudget: { maxUnavailable: 0 } },
  { podDisruptionBudget: { minAvailable: 'half' } },
  { startupProbe: { httpGet: { path: '/' } } },
  { readinessProbe: { periodSeconds: 0 } },
  { commonLabels: { tier: 1 } },
  { extraObjects: [1] },
  { service: { externalTrafficPolicy: 'local' } },
  { ingress: { path: 'v1' } },
  { persistence: { size: 'large' } },
  { autoscaling: { targetCPUUtilizationPercentage: 700 } },
];
