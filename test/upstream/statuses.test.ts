import { STATUS_CODES } from 'node:http';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { serveTcp } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { readAnswers } from '../helpers/strict.mjs';
import { until } from '../helpers/until.js';

/*
 * Final statuses, with a length and chunked, to clients of HTTP/1.1 and HTTP/2: the status
 * arrives, and the content too, except where a status forbids it (RFC 9110 15.3.5, 15.3.6, 15.4.5).
 */

/** The registered ones, and the last of each class. */
const STATUSES = [...Object.keys(STATUS_CODES).map(Number), 299, 399, 499, 599].filter(
  (status) => status >= 200,
);
const FORBID_CONTENT = [204, 205, 304];
const FRAMINGS = {
  length: 'Content-Length: 7\r\n\r\ncontent',
  chunked: 'Transfer-Encoding: chunked\r\n\r\n7\r\ncontent\r\n0\r\n\r\n',
};
const paths = STATUSES.flatMap((status) => Object.keys(FRAMINGS).map((framing) => `/${status}/${framing}`));
const wantedOf = (path: string, method = 'GET') => {
  const status = Number(path.split('/')[1]);
  return { status, content: method === 'HEAD' || FORBID_CONTENT.includes(status) ? '' : 'content' };
};

/** Answers each request with the status and framing that its path names. */
const upstream = await serveTcp(t, (socket) => {
  let received = '';
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1');
    for (let end; (end = received.indexOf('\r\n\r\n')) >= 0; received = received.slice(end + 4)) {
      const [, method, status, framing] = /^(\w+) \/(\d+)\/(\w+)/.exec(received) ?? [];
      const answer = `HTTP/1.1 ${status} Told\r\n${FRAMINGS[framing as keyof typeof FRAMINGS]}`;
      socket.write(method === 'HEAD' ? answer.slice(0, answer.indexOf('\r\n\r\n') + 4) : answer);
    }
  });
});
const folder = temporaryFolder(t);
const tls = selfSigned(folder, 'a.example');
const config = { upstream: upstream.url, default_route: { auth: 'none' }, admin: { port: 0 } };
const { url } = await start(
  t,
  writeConfig(folder, { ...config, listen: { host: '127.0.0.1', port: 0, tls } }),
);

for (const method of ['GET', 'HEAD'])
  t.test(`${method} over HTTP/1.1, on one connection`, async (t) => {
    const client = openRaw(url);
    const methods = paths.map(() => method);
    for (const path of paths) client.write(`${method} ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
    const answers = () => readAnswers(client.bytes(), methods, client.ended).answers;
    await until(() => answers().length === paths.length || client.ended, 'all are answered');
    const found = answers().map(({ status, body }) => ({ status, content: body.toString() }));
    t.same(
      found,
      paths.map((path) => wantedOf(path, method)),
    );
  });

t.test('GET and HEAD over HTTP/2', async (t) => {
  const session = await openHttp2(t, url);
  for (const method of ['GET', 'HEAD'])
    for (const path of paths) {
      const { status, text } = await sendHttp2(session, path, { method });
      t.same({ status, content: text }, wantedOf(path, method), `${method} ${path}`);
    }
});
