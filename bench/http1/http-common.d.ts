/** Node's parser (llhttp), as far as it is used here: neither Node nor @types/node documents it. */
declare module 'node:_http_common' {
  class HTTPParser {
    static readonly REQUEST: number;
    static readonly RESPONSE: number;
    static readonly kOnHeadersComplete: number;
    static readonly kOnBody: number;
    static readonly kOnMessageComplete: number;
    initialize(type: number, owner: object): void;
    execute(bytes: Buffer): number | Error;
    [callback: number]:
      ((major: number, minor: number, fields: string[]) => number) | ((body: Buffer) => void) | (() => void);
  }
  const common: { HTTPParser: typeof HTTPParser };
  export default common;
}
