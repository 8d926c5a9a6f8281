/** Bytes that could not be parsed. */
export interface Fault {
  readonly fault: string;
}
/** A request as the strict parser reads it. */
export interface StrictRequest {
  readonly method: string;
  readonly target: string;
  readonly fields: [string, string][];
  readonly body: Buffer;
  readonly end: number;
}
/** A response as the strict parser reads it. */
export interface StrictAnswer {
  readonly status: number;
  readonly fields: [string, string][];
  readonly body: Buffer;
  readonly end: number;
}
export function readRequest(bytes: Buffer, from: number): StrictRequest | Fault | undefined;
export function readRequests(bytes: Buffer): StrictRequest[] | undefined;
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
