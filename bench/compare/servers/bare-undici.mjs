// The least that a proxy with undici can do: raw header arrays through `dispatch`, no check. Nothing is faster with it,
// so it is what Latchkey's cost is set against. Started with its port and that of the upstream.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

// The undici that Latchkey uses, not one that a peer brought along.
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
  // A client that leaves in the middle would keep a connection to the upstream for ever.
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
