#!/usr/bin/env node
// Sends hostile requests to the example programs and reports unexpected behaviour. See `--help`.
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { readAnswers, readRequests } from '../../test/helpers/strict.mjs';
import { abandon, talk } from '../../test/helpers/wire.mjs';
import { run } from '../lib/processes.mjs';
import { COMMANDS, startProgram } from './examples/program.mjs';
import { spoil } from './examples/requests.mjs';
import { targetOf } from './examples/targets.mjs';
import { createRandom } from './random.mjs';

/** @import { Command, Program } from './examples/program.mjs' */
/** @import { Target } from './examples/targets.mjs' */

const BATCH = 50;
const QUIET_MS = 10_000;
/** A program may wait for the rest of invalid bytes, so they are given up early. */
const SPOILT_QUIET_MS = 150;
const SETTLE_MS = 10;
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    only: { type: 'string' },
    instead: { type: 'string' },
    save: { type: 'string', default: join(tmpdir(), 'latchkey-example-finding.txt') },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`node bench/fuzz/examples.mjs [options]     (npm run fuzz:examples)

  --seconds N     duration for each program (60); 0 sends only requests that caused problems before
  --seed N        repeats the requests of a run (random; it is printed)
  --only NAME     one program: ${Object.keys(COMMANDS).join(', ')}
  --save FILE     file for the request of a finding (latchkey-example-finding.txt in the folder for temporary files)
  --instead FILE  a Node program to test in place of --only
`);
  process.exit(0);
}
/** @param {string} text */
const say = (text) => process.stdout.write(`${text}\n`);

await run(async () => {
  const names = values.only === undefined ? Object.keys(COMMANDS) : [values.only];
  for (const name of names) {
    if (!Object.hasOwn(COMMANDS, name)) throw new Error(`no example is called ${name}; --help lists them`);
    /** @type {Command | undefined} */
    const command = values.instead === undefined ? COMMANDS[name]() : [process.execPath, values.instead];
    if (command === undefined) say(`${name}: not tried, what it needs is not on this machine`);
    else await fuzz(name, command);
  }
});

/**
 * @param {string} name
 * @param {Command} command
 */
async function fuzz(name, command) {
  const seed = Number(values.seed);
  const random = createRandom(seed);
  const target = await targetOf(name);
  const program = await startProgram(command, target.env);
  const until = Date.now() + Number(values.seconds) * 1_000;
  /**
   * @param {string} text
   * @param {string[]} faults
   */
  const found = (text, faults) => {
    writeFileSync(values.save, text, 'latin1');
    say(`${name}: FOUND (seed ${seed}) ${faults.join('; ')}\n  ${JSON.stringify(text.slice(0, 500))}`);
    say(`  kept in ${values.save}, ${text.length} bytes`);
    process.exitCode = 1;
  };
  let count = 0;
  /**
   * @param {string} text
   * @param {number[]} [statuses]
   */
  const attempt = async (text, statuses) => {
    count += 1;
    const faults = await judge(program, target, text, statuses);
    if (faults.length > 0) found(text, faults);
    return faults.length === 0;
  };
  let holds = true;
  for (const text of [target.control, ...target.seeds, target.control]) holds &&= await attempt(text);
  const recent = [target.control];
  while (holds && Date.now() < until) {
    const { text, statuses } = target.next(random);
    recent[random.below(20)] = text;
    const spoilt = random.oneIn(3);
    holds = await (spoilt ? attempt(spoil(random, text, recent.filter(Boolean))) : attempt(text, statuses));
    if (random.oneIn(10)) await abandon(program.port, Buffer.from(text, 'latin1'), random.below(4));
    if (holds && count % BATCH === 0) holds = await attempt(target.control, [200]);
  }
  holds &&= await attempt(target.control, [200]);
  program.stop();
  say(`${name}: ${count} requests, ${holds ? 'nothing found' : 'stopped at the first finding'}`);
}

/**
 * Sends one text and returns what was wrong with the outcome.
 *
 * @param {Program} program
 * @param {Target} target
 * @param {string} text
 * @param {number[]} [statuses] of the required response, if the text is a well-formed request
 */
async function judge(program, target, text, statuses) {
  const bytes = Buffer.from(text, 'latin1');
  const sent = readRequests(bytes);
  const methods = sent?.map(({ method }) => method) ?? [];
  /** @param {Buffer} soFar */
  const enough = (soFar) => sent !== undefined && readAnswers(soFar, methods, false).answers.length > 0;
  const quietMs = statuses === undefined ? SPOILT_QUIET_MS : QUIET_MS;
  const talked = await talk(program.port, [bytes], { enough, quietMs, settleMs: SETTLE_MS });
  const faults = [];
  if (!program.alive()) faults.push('the process ended');
  const complaints = program.complaints();
  if (complaints !== '') faults.push(`standard error: ${complaints.slice(0, 1_500)}`);
  const said = talked.bytes.toString('latin1');
  for (const [, status] of said.matchAll(/^HTTP\/1\.[01] (\d{3})/gm)) {
    if (status.startsWith('5') && !['501', '505'].includes(status)) faults.push(`an answer of ${status}`);
    if (status === '200' && !target.entitled(text)) faults.push('an answer of 200 that nothing in it deserves');
  }
  if (sent === undefined) return faults;
  const { answers, fault } = readAnswers(talked.bytes, methods, talked.ended);
  if (answers.length > sent.length) faults.push(`${answers.length} answers to ${sent.length} requests`);
  // Servers that cannot parse a request do not know whether its method was HEAD.
  if (statuses === undefined) return faults;
  if (fault !== undefined) faults.push(`an answer that is not well-formed: ${fault}`);
  const [first] = answers;
  if (!statuses.includes(first?.status))
    faults.push(`an answer of ${first?.status}, expected ${statuses.join(' or ')}`);
  return faults;
} // prettier-ignore
