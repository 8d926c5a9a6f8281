/** The part of Node's parser (llhttp) used here; neither Node nor @types/node documents it. */
declare module 'node:_http_common' {
  class HTTPParser {
    static readonly REQUEST: number;
    static readonly RESPONSE: number;
    static readonly kOnHeaders: number;
    static readonly kOnHeadersComplete: number;
    static readonly kOnBody: number;
    static readonly kOnMessageComplete: number;
    initialize(type: number, owner: object, maxHeaderSize?: number, lenient?: number): void;
    execute(bytes: Buffer): number | (Error & { code: string });
    finish(): number | (Error & { code: string }) | undefined;
    close(): void;
    /**
     * Callbacks by number; each takes the arguments of `OnHeaders`, `OnHeadersComplete` and so on.
     */
    // oxlint-disable-next-line typescript/no-explicit-any -- five functions, one for each number
    [callback: number]: (...args: any[]) => number | void;
  }
  const common: { HTTPParser: typeof HTTPParser; methods: readonly string[] };
  export default common;
}
