import { type ClientHttp2Stream, constants } from 'node:http2';
import { BrokenStream, codeOf, InvalidUpstreamResponse, NotProcessed } from './faults.js';
import type { OpenSession } from './http2-connect.js';

const NAMES: readonly string[] = [
  'NO_ERROR',
  'PROTOCOL_ERROR',
  'INTERNAL_ERROR',
  'FLOW_CONTROL_ERROR',
  'SETTINGS_TIMEOUT',
  'STREAM_CLOSED',
  'FRAME_SIZE_ERROR',
  'REFUSED_STREAM',
  'CANCEL',
  'COMPRESSION_ERROR',
  'CONNECT_ERROR',
  'ENHANCE_YOUR_CALM',
  'INADEQUATE_SECURITY',
  'HTTP_1_1_REQUIRED',
];

/** Codes of an invalid or excessive response; a reset by nghttp2 looks like one by the upstream. */
const INVALID_RESPONSE_CODES: ReadonlySet<number> = new Set([
  constants.NGHTTP2_PROTOCOL_ERROR,
  constants.NGHTTP2_FLOW_CONTROL_ERROR,
  constants.NGHTTP2_ENHANCE_YOUR_CALM,
]);

export function faultOfStream(
  stream: ClientHttp2Stream,
  { session, socket }: OpenSession,
  lastStream: number,
  error: Error | undefined,
): Error {
  const code = stream.rstCode;
  const name = NAMES[code] ?? String(code);
  if (code === constants.NGHTTP2_REFUSED_STREAM || (stream.id ?? 0) > lastStream)
    return new NotProcessed('the upstream refused the stream');
  if (error !== undefined && codeOf(error) === 'ERR_HTTP2_ERROR')
    return new InvalidUpstreamResponse(`malformed HTTP/2: ${error.message}`);
  if (session.destroyed || socket.destroyed)
    return new BrokenStream(error?.message ?? 'the upstream closed the connection');
  if (code === constants.NGHTTP2_HTTP_1_1_REQUIRED)
    return new InvalidUpstreamResponse('it requires HTTP/1.1; set protocol: http1');
  if (INVALID_RESPONSE_CODES.has(code)) return new InvalidUpstreamResponse(`malformed response: ${name}`);
  return new BrokenStream(`the stream was reset: ${name}`);
}
