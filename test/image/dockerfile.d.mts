export interface Instruction {
  readonly name: string;
  readonly rest: string;
}
export function readDockerfile(file: string): Instruction[];
export function stagesOf(
  instructions: readonly Instruction[],
): { from: string; name: string; instructions: Instruction[] }[];
export function readDockerignore(file: string): (path: string) => boolean;
export function wordsOf(rest: string): string[];
