import { setTimeout as sleep } from 'node:timers/promises';
import { openRaw, type RawClient } from '../helpers/raw-client.mjs';
import type { Recorder } from './recorder.js';

/**
 * A request as exact bytes and its expected outcome. Patterns are case-insensitive, with `^` and
 * `$` at line ends.
 *
 * `raw` may contain `{{NAME}}` for values of the run, `{{REPEAT:n:text}}`, `{{PAUSE:ms}}` and
 * `{{HALFCLOSE}}`.
 */
export interface AttackCase {
  readonly id: string;
  readonly class: string;
  readonly raw: string;
  /** A description for readers. */
  readonly expect: string;
  /** The status of the final response, or how the connection ended. */
  readonly expect_status: readonly (number | 'close' | 'timeout')[];
  readonly upstream_must_not_see: string | null;
  readonly upstream_must_see?: string;
  readonly max_upstream_requests?: number;
  readonly min_responses?: number;
  readonly max_responses?: number;
  readonly response_must_not_see?: string;
  readonly response_must_see?: string;
  /** The first response counts, even if it is interim. */
  readonly strict_first?: boolean;
  /** Longest time to the first byte of the response, in milliseconds. */
  readonly max_ms?: number;
  /** The case waits for a limit of the server. */
  readonly slow?: boolean;
  readonly source?: string;
  readonly needs?: string;
}

/** The values for `{{NAME}}`. */
export type Values = Readonly<Record<string, string>>;

/** A case that is slow is slow each time; a busy machine is not. */
const TRIES = 5;
const QUIET_MS = 300;
const SLOW_MS = 20_000;

/** Derives the spellings of the identity header and the damaged forms of a token. */
export function derivedValues(token: string, identityField: string): Values {
  return {
    TOKEN: token,
    TOKEN_TRUNC: token.slice(0, -1),
    TOKEN_FLIP: token.slice(0, -1) + (token.endsWith('A') ? 'B' : 'A'),
    TOKEN_CASE: token.replace(/[a-zA-Z]/g, (c) =>
      c === c.toUpperCase() ? c.toLowerCase() : c.toUpperCase(),
    ),
    IDH: identityField,
    IDH_LOWER: identityField.toLowerCase(),
    IDH_UPPER: identityField.toUpperCase(),
    IDH_UNDERSCORE: identityField.replaceAll('-', '_'),
    IDH_DOT: identityField.replaceAll('-', '.'),
    IDH_MIXED: identityField.replace(/-([^-]*)$/, '_$1'),
  };
}

/** Runs a case. Returns what is wrong; an empty list if the case passes. */
export async function runCase(
  each: AttackCase,
  server: string,
  upstream: Recorder,
  values: Values,
  tries = TRIES,
): Promise<string[]> {
  upstream.reset();
  const answer = await exchange(each, server, values);
  // What the server forwards after its response belongs to the case, too.
  await sleep(30);
  const faults = judge(each, answer, upstream, values);
  const isLate = answer.ms > (each.max_ms ?? Infinity);
  return isLate && faults.length === 1 && tries > 1
    ? runCase(each, server, upstream, values, tries - 1)
    : faults;
}

function judge(each: AttackCase, answer: Exchange, upstream: Recorder, values: Values): string[] {
  const pattern = (text: string) => new RegExp(substitute(text, values), 'im');
  const codes = Array.from(answer.text.matchAll(/HTTP\/1\.[01] (\d{3})/g), ([, code]) => Number(code));
  const finals = codes.filter((code) => code >= 200 || code === 101);
  const status = (each.strict_first === true ? codes[0] : finals[0]) ?? answer.end;
  const requests = upstream.requests();
  const rules: [boolean, string][] = [
    [each.expect_status.includes(status), `status ${status}, not one of ${each.expect_status.join()}`],
    [
      each.upstream_must_not_see === null || !pattern(each.upstream_must_not_see).test(upstream.heads()),
      `the upstream saw ${each.upstream_must_not_see}`,
    ],
    [
      each.upstream_must_see === undefined ||
        finals[0] !== 200 ||
        pattern(each.upstream_must_see).test(upstream.bytes()),
      `the upstream missed ${each.upstream_must_see}`,
    ],
    [
      requests.length <= (each.max_upstream_requests ?? Infinity),
      `the upstream read ${requests.length} requests: ${requests.join()}`,
    ],
    [finals.length <= (each.max_responses ?? Infinity), `${finals.length} answers`],
    [finals.length >= (each.min_responses ?? 0), `only ${finals.length} answers`],
    [
      each.response_must_not_see === undefined || !pattern(each.response_must_not_see).test(answer.text),
      `the answer shows ${each.response_must_not_see}`,
    ],
    [
      each.response_must_see === undefined || pattern(each.response_must_see).test(answer.text),
      `the answer lacks ${each.response_must_see}`,
    ],
    [answer.ms <= (each.max_ms ?? Infinity), `it took ${answer.ms} ms`],
  ];
  return rules.filter(([holds]) => !holds).map(([, fault]) => fault);
}

interface Exchange {
  readonly text: string;
  readonly end: 'close' | 'timeout';
  /** To the first byte, or to the end if none arrived. */
  readonly ms: number;
}

function exchange(each: AttackCase, server: string, values: Values): Promise<Exchange> {
  return new Promise((resolve) => {
    const client = openRaw(server);
    const { socket } = client;
    const startedAt = Date.now();
    let firstAt = 0;
    const finish = (end: Exchange['end']) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ text: client.text(), end, ms: (firstAt === 0 ? Date.now() : firstAt) - startedAt });
    };
    // Every case is answered or closed; a busy machine may take a while.
    let timer = setTimeout(() => finish('timeout'), SLOW_MS);
    const answers = () => client.text().match(/HTTP\/1\.[01] (?:[2-5]\d\d|101)/g)?.length ?? 0;
    socket.once('connect', () => void send(client, substitute(each.raw, values)));
    socket.on('data', () => {
      if (firstAt === 0) firstAt = Date.now();
      if (each.slow === true || answers() < (each.min_responses ?? 0)) return;
      clearTimeout(timer);
      timer = setTimeout(() => finish('timeout'), QUIET_MS);
    });
    socket.on('end', () => finish('close')).on('error', () => finish('close'));
  });
}

async function send({ socket, write }: RawClient, raw: string): Promise<void> {
  const whole = raw.replace(/\{\{REPEAT:(\d+):([\s\S]*?)\}\}/g, (_, times: string, text: string) =>
    text.repeat(Number(times)),
  );
  for (const part of whole.split(/(\{\{PAUSE:\d+\}\}|\{\{HALFCLOSE\}\})/)) {
    const pause = /^\{\{PAUSE:(\d+)/.exec(part)?.[1];
    if (pause !== undefined) await sleep(Number(pause));
    else if (part === '{{HALFCLOSE}}') socket.end();
    else if (part !== '' && !socket.destroyed) write(part);
  }
}

function substitute(text: string, values: Values): string {
  return text.replace(/\{\{([A-Z_]+)\}\}/g, (whole, name: string) => values[name] ?? whole);
}
