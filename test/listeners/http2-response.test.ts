import { once } from 'node:events';
import { type ClientHttp2Stream, constants, type ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { Http2Connections } from '../../src/listeners/http2-connections.js';
import { Http2Request, Http2Response } from '../../src/listeners/http2-message.js';
import { openHttp2 } from '../helpers/http2.js';
import { HTTP2_LIMITS } from '../helpers/in-process-http2.js';
import { until } from '../helpers/until.js';

const { NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR } = constants;
const GRPC = ['Content-Type', 'application/grpc'];

/** Calls a response in every way; returns what it answers. */
function callAll(response: Http2Response): unknown[] {
  const { headersSent } = response;
  response.writeContinue();
  if (!headersSent) response.writeHead(200, 'OK', GRPC);
  const takesMore = response.write(Buffer.alloc(200_000, 'x'));
  const isEnded = response.endGrpc([['grpc-status', '2']]);
  response.end('late');
  return [takesMore, isEnded, response.headersSent === headersSent];
}

/** The end of a response, the code its client receives, and whether that is its own. */
const ENDS: [string, (response: Http2Response, client: ClientHttp2Stream) => unknown, number, string][] = [
  ['a reset with NO_ERROR', (_, client) => client.destroy(), NGHTTP2_NO_ERROR, ''],
  ['a reset with CANCEL', (_, client) => client.close(NGHTTP2_CANCEL), NGHTTP2_CANCEL, ''],
  ['an abort', (response) => response.destroy(), NGHTTP2_INTERNAL_ERROR, ''],
  ['two aborts', (response) => response.destroy().destroy(), NGHTTP2_INTERNAL_ERROR, ''],
  ['its end', (response) => response.end('whole'), NGHTTP2_NO_ERROR, 'whole'],
  ['the end of a call', (response) => response.endGrpc([['grpc-status', '1']]), NGHTTP2_NO_ERROR, ''],
]; // prettier-ignore

t.test('a response that has ended, in any way, takes nothing more', async (t) => {
  const begun: [Http2Response, ServerHttp2Stream][] = [];
  const errors: unknown[] = [];
  const connections = new Http2Connections(
    HTTP2_LIMITS,
    (socket, stream, headers, raw) => {
      stream.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code ?? error.message));
      const response = new Http2Response(new Http2Request(socket, stream, headers, raw));
      begun.push([response, stream]);
      if (headers[':path'] === '/head') response.writeHead(200, 'OK', GRPC);
      if (headers[':path'] === '/body') response.writeHead(200, 'OK', ['Content-Length', '5']).write('whole');
    },
    (error) => t.error(error),
  );
  const server = createServer((socket) => connections.accept(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = await openHttp2(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  t.teardown(() => server.close());
  for (const [about, end, code, body] of ENDS)
    for (const path of ['/', '/head', '/body'])
      for (const isLate of [true, false]) {
        const isReset = about.startsWith('a reset');
        // Only a response with a head, and without a body, ends in another way.
        if (path !== '/head' && code === NGHTTP2_NO_ERROR && !isReset) continue;
        const seen = `${about} of ${path}, ${isLate}`;
        const client = session.request({ ':path': path });
        const received: Buffer[] = [];
        let status: unknown;
        client.on('data', (chunk: Buffer) => received.push(chunk)).on('error', () => undefined);
        client.on('trailers', (trailers) => (status = trailers['grpc-status'] ?? 'none'));
        await until(() => begun.length > 0, 'the request');
        const [response, stream] = begun.pop() as (typeof begun)[number];
        errors.length = 0;
        end(response, client);
        if (isLate) await until(() => stream.destroyed, 'its end');
        // At this moment, the stream is closed and not yet destroyed.
        else if (isReset) await once(stream, 'aborted');
        t.same(callAll(response), [true, false, true], seen);
        await until(() => stream.destroyed && client.destroyed, `both ends, ${seen}`);
        t.same(errors, about.includes('abort') ? ['the response was aborted'] : [], seen);
        t.equal(client.rstCode, code, seen);
        if (path !== '/body') t.equal(Buffer.concat(received).toString(), body, seen);
        t.equal(status, about === 'the end of a call' ? '1' : undefined, seen);
      }
}); // prettier-ignore
