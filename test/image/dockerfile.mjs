import { readFileSync } from 'node:fs';

/** @import { Instruction } from './dockerfile.mjs' */

/**
 * Parses the instructions of a Dockerfile; continued lines are joined.
 * @param {string} file
 */
export function readDockerfile(file) {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => !/^\s*(#|$)/.test(line));
  const instructions = [];
  for (const line of lines
    .join('\n')
    .replace(/\\\n\s*/g, ' ')
    .split('\n')) {
    const [, name = '', rest = ''] = /^(\w+)\s+(.*)$/.exec(line) ?? [];
    instructions.push({ name, rest: rest.trim() });
  }
  return instructions;
}

/**
 * Returns the stages of a Dockerfile with their names, in order.
 * @param {readonly Instruction[]} instructions
 */
export function stagesOf(instructions) {
  /** @type {{ from: string, name: string, instructions: Instruction[] }[]} */
  const stages = [];
  for (const { name, rest } of instructions) {
    if (name !== 'FROM') stages.at(-1)?.instructions.push({ name, rest });
    else {
      const [, from = '', as = ''] = /^(?:--platform=\S+ )?(\S+) AS (\S+)$/.exec(rest) ?? [];
      stages.push({ from, name: as, instructions: [] });
    }
  }
  return stages;
}

/**
 * Returns a predicate for the paths that a .dockerignore lets into a build: the last line that
 * matches a path or a folder above it decides.
 * @param {string} file
 */
export function readDockerignore(file) {
  const rules = readFileSync(file, 'utf8')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const pattern = line.replace(/^!/, '').replace(/\/$/, '');
      const source = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&').replaceAll('*', '[^/]*');
      return { takesIn: line.startsWith('!'), fits: new RegExp(`^${source}(/|$)`) };
    });
  return (/** @type {string} */ path) => rules.findLast(({ fits }) => fits.test(path))?.takesIn ?? true;
}

/**
 * Returns the words of an instruction in exec form, or of COPY.
 * @param {string} rest
 */
export function wordsOf(rest) {
  return rest.startsWith('[') ? JSON.parse(rest) : rest.split(/\s+/);
}
