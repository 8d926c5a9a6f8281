import { type Check, type Deployment, fine, type Finding } from '../check.js';
import { type Destination, guessedPort } from '../exchange.js';
import type { ProbeResponse } from '../message.js';
import { isLoopback } from '../trust.js';
import { describeAnswer } from '../verdict.js';

interface Interface {
  readonly name: string;
  /** Default ports; empty for interfaces that are only paths. */
  readonly ports: readonly number[];
  readonly paths: readonly string[];
  /** Recognizes its responses. */
  readonly pattern: RegExp;
  /** Whether it can reconfigure the proxy, or shows secrets. */
  readonly isControl: boolean;
}

const INTERFACES: readonly Interface[] = [
  { name: "Caddy's admin API", ports: [2019], paths: ['/config/'], pattern: /^\s*\{"(?:apps|admin|logging)"/, isControl: true },
  { name: "Envoy's admin interface", ports: [9901, 15000, 19000], paths: ['/server_info', '/config_dump'], pattern: /"(?:hot_restart_version|command_line_options)"|envoy\.admin\./, isControl: true },
  { name: "Traefik's API", ports: [8080], paths: ['/api/rawdata', '/api/http/routers'], pattern: /"(?:routers|middlewares)":\s*\{|"entryPoints":\s*\[/, isControl: true },
  { name: "HAProxy's statistics page", ports: [8404], paths: ['/haproxy?stats', '/stats', '/;csv', '/stats;csv'], pattern: /Statistics Report for HAProxy|^# pxname,svname/m, isControl: false },
  { name: "nginx's status page", ports: [], paths: ['/nginx_status', '/stub_status', '/basic_status'], pattern: /^Active connections: \d+/m, isControl: false },
  { name: "Apache's status page", ports: [], paths: ['/server-status', '/server-info'], pattern: /Apache Server (?:Status|Information)/, isControl: false },
]; // prettier-ignore

/** Whether the proxies in front can be controlled from here. */
export const proxyAdmin: Check = {
  name: 'proxy-admin',
  title: 'Admin interfaces of proxies',
  severity: 'serious',
  remedy:
    'Bind the admin interface of the proxy to loopback or turn it off (Caddy: admin off; Envoy: admin.address 127.0.0.1; Traefik: api.insecure false; HAProxy: no stats uri in a public frontend; nginx: allow and deny for stub_status): anyone who controls the proxy can turn off its check.',
  async run(deployment) {
    const found = await Promise.all(INTERFACES.map(async (one) => examine(deployment, one)));
    const findings = found.flat();
    return findings.length > 0 ? { findings, seen: '' } : fine('none of the usual ones responds');
  },
};

async function examine(deployment: Deployment, one: Interface): Promise<Finding[]> {
  const ports = one.ports.filter((port) => port !== deployment.to.port);
  const direct = ports.map((port): Destination => ({ ...guessedPort(deployment.to, port), authority: `localhost:${port}` }));
  const answers = await Promise.all(
    [deployment.to, ...direct].flatMap((to) =>
      one.paths.map(async (target) => ({ to, target, answer: await deployment.send({ target }, to) })),
    ),
  );
  const hits = answers.filter(({ answer }) => answer.status === 200 && one.pattern.test(answer.body));
  if (hits.length === 0) return [];
  const isHere = hits.every(({ to, answer }) => to !== deployment.to && isLoopback(answer.remote));
  const severity = one.isControl && !isHere ? 'serious' : 'warning';
  const evidence = hits.map(({ to, target, answer }) => lineOf(to, target, answer));
  return [{ severity, summary: `${one.name} responds${isHere ? ' on loopback: only programs on this machine reach it' : ''}`, evidence }];
} // prettier-ignore

function lineOf({ host, port }: Destination, target: string, answer: ProbeResponse): string {
  return `GET ${target} at ${host}:${port}: ${describeAnswer(answer)}`;
}
