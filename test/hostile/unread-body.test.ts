import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { needPackages, runs } from '../helpers/debian.js';
import { exchange } from '../helpers/exchange.js';
import { startFixture } from '../helpers/fixture.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { accepts } from '../helpers/raw-client.mjs';
import { freePort } from '../helpers/free-port.mjs';
import { until } from '../helpers/until.js';

/** Starts a server that leaves bodies unread and logs a line "METHOD TARGET" for each request. */
type Start = (folder: string, port: number, log: string) => ChildProcess;

const PYTHON = `
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def answer(self):
        with open(sys.argv[2], 'a') as log: log.write(self.command + ' ' + self.path + '\\n')
        self.send_response(200)
        self.send_header('Content-Length', '0' if self.command == 'HEAD' else '2')
        self.end_headers()
        if self.command != 'HEAD': self.wfile.write(b'ok')
    do_GET = do_HEAD = do_OPTIONS = do_DELETE = do_PURGE = do_POST = answer
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
`;
const LOG_LINE = `"$REQUEST_METHOD $REQUEST_URI"`;

const PROGRAMS: Readonly<Record<string, Start>> = {
  "Python's http.server": (folder, port, log) => {
    needPackages(() => runs('python3', '--version'), 'python3');
    writeFileSync(join(folder, 'server.py'), PYTHON);
    return spawn('python3', [join(folder, 'server.py'), String(port), log], { stdio: 'ignore' });
  },
  'lighttpd with CGI': (folder, port, log) => {
    needPackages(() => runs('lighttpd', '-v'), 'lighttpd');
    mkdirSync(join(folder, 'www'));
    const script = join(folder, 'www', 'search.cgi');
    const answer = String.raw`printf 'Status: 200\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok'`;
    writeFileSync(script, `#!/bin/sh\necho ${LOG_LINE} >> ${log}\n${answer}\n`);
    chmodSync(script, 0o755);
    const config = [
      'server.modules = ("mod_cgi", "mod_rewrite")',
      `server.document-root = "${folder}/www"`,
      `server.port = ${port}`,
      'server.bind = "127.0.0.1"',
      'cgi.assign = (".cgi" => "")',
      'server.http-parseopts = ("method-get-body" => "enable")',
      'url.rewrite-once = ("" => "/search.cgi")',
    ];
    writeFileSync(join(folder, 'lighttpd.conf'), `${config.join('\n')}\n`);
    return spawn('lighttpd', ['-D', '-f', join(folder, 'lighttpd.conf')], { stdio: 'ignore' });
  },
  "PHP's own server": (folder, port, log) => {
    needPackages(() => runs('php', '--version'), 'php-cli');
    const script = join(folder, 'index.php');
    writeFileSync(script, `<?php file_put_contents('${log}', $_SERVER['REQUEST_METHOD'] . ' ' . $_SERVER['REQUEST_URI'] . "\\n", FILE_APPEND); header('Content-Length: 2'); echo 'ok';`);
    return spawn('php', ['-S', `127.0.0.1:${port}`, script], { stdio: 'ignore', cwd: folder });
  },
}; // prettier-ignore

const SMUGGLED =
  'GET /smuggled HTTP/1.1\r\nHost: a\r\nX-Auth-User-Id: admin\r\nX-Auth-Role: superuser\r\nConnection: keep-alive\r\n\r\n';

for (const [program, startProgram] of Object.entries(PROGRAMS))
  t.test(`no body is read as a request by ${program}`, async (t) => {
    const folder = temporaryFolder(t);
    const log = join(folder, 'requests.log');
    const port = await freePort();
    const child = startProgram(folder, port, log);
    t.teardown(() => void child.kill('SIGKILL'));
    await until(() => accepts(port), program);
    const { url, token } = await startFixture(t, {
      upstream: `http://127.0.0.1:${port}`,
      routes: [
        { path: '/search/*', action: 'search', body_on_read: 'allow' },
        { path: '/*', action: 'api' },
      ],
    });
    const key = await token('superuser');
    const seen = () => (existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : []);
    const expected: string[] = [];
    const chunked = `${SMUGGLED.length.toString(16)}\r\n${SMUGGLED}\r\n0\r\n\r\n`;
    const framings = [`Content-Length: ${SMUGGLED.length}\r\n\r\n${SMUGGLED}`, `Transfer-Encoding: chunked\r\n\r\n${chunked}`]; // prettier-ignore
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'DELETE', 'PURGE'])
      for (const path of ['/search/a', '/a'])
        for (const framed of framings) {
          const request = `${method} ${path} HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\n${framed}`;
          const { status } = await exchange(url, request, method === 'HEAD');
          const about = `${method} ${path} ${framed.slice(0, 17)}: ${status}`;
          const isRead = ['GET', 'HEAD'].includes(method);
          if (isRead && path === '/a') t.equal(status, 400, about);
          else {
            // Some servers answer 501 or 411 themselves and log nothing.
            t.ok(status >= 200 && status !== 400, about);
            expected.push(`${method} ${path}`);
          }
          await exchange(url, `GET /next HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\n\r\n`);
          expected.push('GET /next');
        }
    await sleep(200);
    t.ok(seen().length > 15, `${seen().length} requests were noted`);
    t.same(seen().filter((line) => !expected.includes(line)), [], 'nothing but what was asked for'); // prettier-ignore
    t.notOk(seen().some((line) => line.includes('smuggled')));
  });
