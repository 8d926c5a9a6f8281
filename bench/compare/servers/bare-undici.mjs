// The minimum for a proxy with undici: raw header arrays through `dispatch`, no check. Nothing is
// faster with undici, so it is the baseline for Latchkey's cost. Started with its port and that of
// the upstream.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

// The undici that Latchkey uses, not one installed with a peer.
/** @type {typeof import('undici')} */
const { Pool } = createRequire(new URL('../../../package.json', import.meta.url))('undici');
const [port, upstreamPort] = process.argv.slice(2).map(Number);
const upstream = new Pool(`http://127.0.0.1:${upstreamPort}`, { connections: 256, pipelining: 1 });
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
]);

/** @param {string[]} raw */
function endToEnd(raw) {
  const kept = [];
  for (let i = 0; i < raw.length; i += 2) {
    if (!HOP_BY_HOP.has(raw[i].toLowerCase())) kept.push(raw[i], raw[i + 1]);
  }
  return kept;
}

createServer({ keepAliveTimeout: 600_000 }, (req, res) => {
  /** @type {(() => void) | undefined} */
  let resume;
  /** @type {(() => void) | undefined} */
  let abort;
  const hasBody = req.headers['content-length'] !== undefined || req.headers['transfer-encoding'] !== undefined;
  res.on('drain', () => resume?.());
  // Otherwise, a client that disconnects midway would occupy an upstream connection forever.
  res.on('close', () => res.writableFinished || abort?.());
  upstream.dispatch(
    {
      method: /** @type {import('undici').Dispatcher.HttpMethod} */ (req.method),
      path: req.url ?? '/',
      headers: endToEnd(req.rawHeaders),
      body: hasBody ? req : null,
    },
    {
      onConnect: (stop) => (abort = stop),
      onHeaders(status, raw, resumeUpstream) {
        resume = resumeUpstream;
        res.writeHead(status, endToEnd(raw.map((each) => each.toString('latin1'))));
        return true;
      },
      onData: (chunk) => res.write(chunk),
      onComplete: () => res.end(),
      onError(error) {
        if (res.headersSent) res.destroy(error);
        else res.writeHead(502).end();
      },
    },
  );
}).listen(port, '127.0.0.1', 4096); // prettier-ignore
