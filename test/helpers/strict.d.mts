/** What can't be read. */
export interface Fault {
  readonly fault: string;
}
/** A request as a strict reader sees it. */
export interface StrictRequest {
  readonly method: string;
  readonly target: string;
  readonly fields: [string, string][];
  readonly body: Buffer;
  readonly end: number;
}
/** An answer as a strict reader sees it. */
export interface StrictAnswer {
  readonly status: number;
  readonly fields: [string, string][];
  readonly body: Buffer;
  readonly end: number;
}
export function readRequest(bytes: Buffer, from: number): StrictRequest | Fault | undefined;
export function readAnswer(
  bytes: Buffer,
  from: number,
  method: string,
  ended: boolean,
): StrictAnswer | Fault | undefined;
export function readAnswers(
  bytes: Buffer,
  methods: readonly string[],
  ended: boolean,
): { answers: StrictAnswer[]; end: number; fault: string | undefined };
export function valuesOf(fields: readonly [string, string][], name: string): string[];
