import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { needPackages, runs } from './debian.js';
import { temporaryFolder } from './latchkey.js';
import { accepts } from './raw-client.mjs';
import { freePort } from './free-port.mjs';
import { until } from './until.js';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

/** A request as a program parsed it; each program answers 200 with this as JSON. */
export interface Understood {
  /** CGI variables, `$_SERVER`, or the environment of WSGI. */
  readonly variables: Record<string, string>;
  /** Query parameters, from the program's own parser. */
  readonly parameters: Record<string, unknown>;
  /** The body as read. */
  readonly body: string;
}

const CGI = `import json, os, sys, urllib.parse
length = int(os.environ.get('CONTENT_LENGTH') or 0)
print('Content-Type: application/json\\n')
print(json.dumps({'variables': dict(os.environ), 'parameters': urllib.parse.parse_qs(os.environ.get('QUERY_STRING', '')),
  'body': sys.stdin.read(length)}))
`;
const PHP = `<?php
header('Content-Type: application/json');
echo json_encode(['variables' => array_filter($_SERVER, 'is_string'), 'parameters' => (object) $_GET,
  'body' => file_get_contents('php://input')], JSON_INVALID_UTF8_SUBSTITUTE);
`;
const WSGI = `import json, sys, urllib.parse
from wsgiref.simple_server import make_server, WSGIRequestHandler
class Quiet(WSGIRequestHandler):
    def log_message(self, *args): pass
def app(environ, start_response):
    body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0)).decode('latin1')
    variables = {name: value for name, value in environ.items() if isinstance(value, str)}
    start_response('200 OK', [('Content-Type', 'application/json')])
    return [json.dumps({'variables': variables, 'parameters': urllib.parse.parse_qs(environ['QUERY_STRING']), 'body': body}).encode()]
make_server('127.0.0.1', int(sys.argv[1]), app, handler_class=Quiet).serve_forever()
`;

/** Starts lighttpd with every request handled by one file. */
function lighttpd(folder: string, port: number, file: string, interpreter: string): ChildProcess {
  needPackages(() => runs('lighttpd', '-v'), 'lighttpd');
  const config = join(folder, 'lighttpd.conf');
  const lines = [
    'server.modules = ("mod_rewrite", "mod_cgi")',
    'server.bind = "127.0.0.1"',
    `server.port = ${port}`,
    `server.document-root = "${folder}"`,
    `server.errorlog = "${join(folder, 'error.log')}"`,
    `url.rewrite-once = ("^/[^?]*(\\?.*)?$" => "/${file}$1")`,
    `cgi.assign = (".${file.split('.')[1]}" => "${interpreter}")`,
  ];
  writeFileSync(config, `${lines.join('\n')}\n`);
  return spawn('lighttpd', ['-D', '-f', config], { stdio: 'ignore' });
}

const PROGRAMS = {
  'lighttpd with CGI': (folder: string, port: number) => {
    needPackages(() => runs('/usr/bin/python3', '--version'), 'python3');
    writeFileSync(join(folder, 'main.py'), CGI);
    return lighttpd(folder, port, 'main.py', '/usr/bin/python3');
  },
  'lighttpd with php-cgi': (folder: string, port: number) => {
    needPackages(() => runs('php-cgi', '-v'), 'php-cgi');
    writeFileSync(join(folder, 'main.php'), PHP);
    return lighttpd(folder, port, 'main.php', '/usr/bin/php-cgi');
  },
  "PHP's own server": (folder: string, port: number) => {
    needPackages(() => runs('php', '-v'), 'php-cli');
    writeFileSync(join(folder, 'main.php'), PHP);
    return spawn('php', ['-S', `127.0.0.1:${port}`, join(folder, 'main.php')], { cwd: folder, stdio: 'ignore' });
  },
  'Python with WSGI': (folder: string, port: number) => {
    needPackages(() => runs('/usr/bin/python3', '--version'), 'python3');
    writeFileSync(join(folder, 'main.py'), WSGI);
    return spawn('/usr/bin/python3', [join(folder, 'main.py'), String(port)], { stdio: 'ignore' });
  },
} as const; // prettier-ignore

/** A program that turns header fields into variables in its own way. */
export type UpstreamProgram = keyof typeof PROGRAMS;

export const UPSTREAM_PROGRAMS = Object.keys(PROGRAMS) as UpstreamProgram[];

/** Starts a program that answers each request with {@link Understood}. Returns its URL. */
export async function startUpstreamProgram(t: Test, program: UpstreamProgram): Promise<string> {
  const port = await freePort();
  const child = PROGRAMS[program](temporaryFolder(t), port);
  const gone = new Promise((done) => child.once('close', done));
  t.teardown(async () => {
    child.kill('SIGTERM');
    await gone;
  });
  await until(() => accepts(port), `${program} accepts connections`, 30_000);
  return `http://127.0.0.1:${port}`;
}
