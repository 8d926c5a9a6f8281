import { spawn } from 'node:child_process';
import { createHash, createHmac } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { endWith, pipe } from '../clients/served.js';
import { clientFolder, runClient } from '../clients/start.js';
import { followSection } from '../docs/in-front-of.js';
import { needPackages, runs } from '../helpers/debian.js';
import { freePort } from '../helpers/free-port.mjs';
import { send, serveHttp } from '../helpers/http.js';
import { needNpmPackages } from '../helpers/packages.mjs';
import { pause, until } from '../helpers/until.js';

/*
 * The sections of docs/in-front-of.md whose programs are large or slow. Grafana and a model are not
 * to be had as packages: servers that read the same fields stand in for them.
 */

const PYTHON = '/usr/bin/python3';
needPackages(
  () => runs('prometheus', '--version') && runs('jupyter-notebook', '--version') && runs('rclone', 'version') && runs(PYTHON, '-c', 'import boto3'),
  'prometheus', 'jupyter-notebook', 'rclone', 'python3-boto3',
); // prettier-ignore
const modules = join(needNpmPackages(join(import.meta.dirname, 'programs')), 'node_modules');
const portOf = (url: string) => Number(new URL(url).port);

/** Starts a program that ends with its test. */
function startProgram(t: Parameters<typeof endWith>[0], file: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): void {
  endWith(t, spawn(file, args, { stdio: 'ignore', env: { PATH: process.env['PATH'], ...env } }));
} // prettier-ignore

t.test('npm: Verdaccio', async (t) => {
  const folder = clientFolder(t);
  const port = await freePort();
  const open = { access: '$all', publish: '$all' };
  writeFileSync(join(folder, 'config.yaml'), JSON.stringify({ storage: folder, packages: { '**': open }, log: { type: 'stdout', level: 'fatal' } }));
  startProgram(t, process.execPath, [join(modules, 'verdaccio/bin/verdaccio'), '--config', join(folder, 'config.yaml'), '--listen', `127.0.0.1:${port}`]);
  const { folder: mine, shell, block, wrong, url } = await followSection(t, 'npm', port);
  writeFileSync(join(mine, 'package.json'), '{"name":"user","version":"1.0.0"}');
  t.match(await shell(block('sh')), { code: 0, out: /\+ user@1\.0\.0/ }, 'a package whose path has a built-in route');
  t.match(await shell('npm view user dist.tarball'), { code: 0, out: new RegExp(`${url}/user/-/user-1\\.0\\.0\\.tgz`) });
  t.match(await shell('mkdir other; cd other; npm install user'), { code: 0, out: /added 1 package/ });
  t.match(await shell('npm whoami'), { code: 1 }, 'there is no account');
  t.same(wrong(), []);
}); // prettier-ignore

/** Starts a kernel as a page does, and computes 6 * 7 in it. */
const KERNEL = `
import asyncio, json, sys, urllib.request
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect
url, token, origin = sys.argv[1:]
first = urllib.request.urlopen(urllib.request.Request(url + '/tree', headers={'Service-Key': token}))
cookie = first.headers['Set-Cookie'].split(';')[0]
headers = {'Service-Key': token, 'Cookie': cookie, 'X-XSRFToken': cookie.split('=', 1)[1], 'Origin': origin}
kernel = json.load(urllib.request.urlopen(urllib.request.Request(url + '/api/kernels', b'{}', headers)))
async def main():
    socket = await websocket_connect(HTTPRequest(url.replace('http', 'ws') + '/api/kernels/' + kernel['id'] + '/channels', headers=headers))
    header = {'msg_id': '1', 'msg_type': 'execute_request', 'username': '', 'session': '1', 'version': '5.3', 'date': '2026-01-01T00:00:00Z'}
    content = {'code': 'print(6 * 7)', 'silent': False, 'store_history': False, 'user_expressions': {}, 'allow_stdin': False}
    await socket.write_message(json.dumps({'header': header, 'parent_header': {}, 'metadata': {}, 'content': content, 'channel': 'shell'}))
    while True:
        message = json.loads(await socket.read_message())
        if message['msg_type'] == 'stream': return print(message['content']['text'])
asyncio.run(asyncio.wait_for(main(), 60))`;

t.test('Jupyter', async (t) => {
  const port = await freePort();
  const HOME = clientFolder(t);
  const [, command = ''] = /`jupyter notebook (--[^`]*)`/.exec(readFileSync('docs/in-front-of.md', 'utf8')) ?? [];
  t.not(command, '');
  startProgram(t, 'jupyter-notebook', [...command.split(/\s+/), '--allow-root', '--port', String(port), '--NotebookApp.port_retries=0', `--notebook-dir=${HOME}`], { HOME });
  const { shell, block, wrong, url, key, asked } = await followSection(t, 'Jupyter', port);
  t.match(await shell(block('sh')), { code: 0, out: /\[\]/ });
  const kernel = (origin: string) => runClient(PYTHON, ['-c', KERNEL, url, key, origin]);
  t.match(await kernel(url), { code: 0, out: /^42$/m }, 'a kernel over a WebSocket');
  t.match(await kernel('http://elsewhere.example'), { code: 1 }, 'not from another origin');
  const named = await send(url, '/api/kernels', { headers: { Host: 'jupyter.example.com', 'Service-Key': key } });
  t.match(named, { status: 200 }, 'by a public name');
  t.match(await openPage(url), { status: 303, headers: { location: /^\/_latchkey\// } });
  t.same(wrong(), []);
  t.ok(asked.length > 4);
}); // prettier-ignore

/** Opens a page as a browser without a session does. */
function openPage(url: string) {
  return send(url, '/', { headers: { Accept: 'text/html', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document', 'Sec-Fetch-Site': 'none' } });
} // prettier-ignore

t.test('Prometheus, which also scrapes itself through Latchkey', async (t) => {
  const folder = clientFolder(t);
  const port = await freePort();
  const config = join(folder, 'prometheus.yml');
  writeFileSync(config, '');
  startProgram(t, 'prometheus', [`--config.file=${config}`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=127.0.0.1:${port}`, '--web.enable-lifecycle']);
  const { shell, block, wrong, url, key, token } = await followSection(t, 'Prometheus', port, '/-/ready');
  writeFileSync(join(folder, 'token'), key);
  const scrape = { job_name: 'api', scrape_interval: '1s', authorization: { credentials_file: join(folder, 'token') }, static_configs: [{ targets: [new URL(url).host] }] };
  writeFileSync(config, JSON.stringify({ scrape_configs: [scrape] }));
  await until(() => fetch(`http://127.0.0.1:${port}/-/reload`, { method: 'POST' }).then(({ ok }) => ok), 'it reloads');
  await until(async () => /"value":\[[\d.]+,"1"\]/.test((await shell(block('sh'))).out), 'it scrapes', 60_000);
  t.same(wrong(), []);
  const TOKEN = await token('engineer', { scope: 'global:read' });
  t.match(await shell(block('sh'), { TOKEN }), { code: 0, out: /"success"/ }, 'a token that only reads sends a query by POST');
}); // prettier-ignore

t.test('Grafana: a server that reads the fields of its auth.proxy', async (t) => {
  const { url: grafana } = await serveHttp(t, (req, res) => {
    const { authorization, 'x-webauth-user': login } = req.headers;
    // Grafana tries credentials of its own first.
    res
      .writeHead(authorization === undefined && login !== undefined ? 200 : 401)
      .end(JSON.stringify({ login }));
  });
  const { shell, block, wrong, url, key } = await followSection(t, 'Grafana', portOf(grafana));
  t.match(await shell(block('sh')), { code: 0, out: /"login":"engineer@example.com"/ });
  const forged = await send(url, '/api/user', { headers: { 'Service-Key': key, 'X-WEBAUTH-USER': 'admin' } });
  t.match(forged.json, { login: 'engineer@example.com' });
  t.match(await openPage(url), { status: 303 });
  t.same(wrong(), []);
});

/** More than the default of `response_timeout`. */
const THINKING_MS = 61_000;

t.test('An LLM API: a server that streams slowly, and the libraries of OpenAI and Anthropic', { timeout: 300_000 }, async (t) => {
  let host = '';
  const { url: llm } = await serveHttp(t, (req, res) => void answer(req.url, req.headers.host, res));
  async function answer(path = '', asked = '', res: ServerResponse): Promise<void> {
    if (path === '/') return void res.end();
    host = asked;
    if (path.endsWith('completions')) await pause(THINKING_MS);
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (const text of ['a', 'b', 'c']) {
      const event = path.endsWith('completions')
        ? `data: ${JSON.stringify({ id: '1', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: text } }] })}`
        : `event: content_block_delta\ndata: ${JSON.stringify({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })}`;
      res.write(`${event}\n\n`);
      await pause(200);
    }
    res.end(path.endsWith('completions') ? 'data: [DONE]\n\n' : 'event: message_stop\ndata: {"type":"message_stop"}\n\n');
  }
  const { folder, shell, block, wrong, asked } = await followSection(t, 'An LLM API', portOf(llm));
  writeFileSync(join(folder, 'ask.mjs'), `
    import OpenAI from '${modules}/openai/index.mjs';
    import Anthropic from '${modules}/@anthropic-ai/sdk/index.mjs';
    const messages = [{ role: 'user', content: 'x' }];
    const one = (async () => {
      let at = [];
      for await (const { choices } of await new OpenAI().chat.completions.create({ model: 'm', stream: true, messages })) at.push([Date.now(), choices[0].delta.content]);
      console.log('OpenAI', at.map(([, text]) => text).join(''), at[2][0] - at[0][0] > 200);
    })();
    for await (const { delta } of await new Anthropic().messages.create({ model: 'm', max_tokens: 1, stream: true, messages })) if (delta) process.stdout.write(delta.text);
    console.log(' Anthropic');
    await one;`);
  t.match(await shell(`${block('sh')}\n${process.execPath} ask.mjs`), { code: 0, out: /^abc Anthropic\nOpenAI abc true$/m });
  t.match(host, /^127\.0\.0\.1:/);
  t.same(wrong(), []);
  t.equal(asked.length, 2);
}); // prettier-ignore

/** Puts an object with boto3, and adds the token after the request is signed. */
const BOTO = `
import boto3, sys
url, token = sys.argv[1:]
s3 = boto3.client('s3', endpoint_url=url, region_name='us-east-1', aws_access_key_id='S3RVER', aws_secret_access_key='S3RVER')
s3.meta.events.register('before-send.s3', lambda request, **_: request.headers.__setitem__('Service-Key', token))
s3.put_object(Bucket='bucket', Key='a b/é.txt', Body=b'two')
print(s3.get_object(Bucket='bucket', Key='a b/é.txt')['Body'].read())`;

/** Verifies the signature of a request, because s3rver doesn't (AWS Signature Version 4). */
function isSigned({ method = '', url = '', headers }: IncomingMessage): boolean {
  const [, scope = '', names = '', signature] = /Credential=[^/]*\/([^,]*), ?SignedHeaders=([^,]*), ?Signature=(\w+)/.exec(headers.authorization ?? '') ?? [];
  const [path = '', query = ''] = url.split('?');
  const parameters = query.split('&').toSorted().map((each) => (each === '' || each.includes('=') ? each : `${each}=`)).join('&');
  const fields = names.split(';').map((name) => `${name}:${String(headers[name])}\n`).join('');
  const whole = [method, path, parameters, fields, names, headers['x-amz-content-sha256']].join('\n');
  const digest = createHash('sha256').update(whole).digest('hex');
  const sign = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest();
  const key = scope.split('/').reduce<string | Buffer>(sign, `AWS4${SECRET}`);
  return sign(key, ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, digest].join('\n')).toString('hex') === signature;
} // prettier-ignore

const SECRET = 'S3RVER';

t.test('S3: s3rver', async (t) => {
  const folder = clientFolder(t);
  const s3rver = await freePort();
  const { url: verifier } = await serveHttp(t, (req, res) => {
    if (req.headers.authorization === undefined || isSigned(req)) pipe(s3rver, req, res);
    else res.writeHead(403, { 'Content-Type': 'application/xml' }).end('<Error><Code>SignatureDoesNotMatch</Code></Error>');
  });
  startProgram(t, process.execPath, [join(modules, 's3rver/bin/s3rver.js'), '-s', '-d', folder, '-p', String(s3rver), '-a', '127.0.0.1', '--configure-bucket', 'bucket']);
  await until(() => fetch(`http://127.0.0.1:${s3rver}`).then(() => true, () => false), 's3rver listens');
  const { folder: mine, shell, block, wrong, url, key, asked } = await followSection(t, 'S3', portOf(verifier));
  mkdirSync(join(mine, 'notes'));
  writeFileSync(join(mine, 'notes/a.txt'), 'one');
  const s3 = { TYPE: 's3', PROVIDER: 'Other', ACCESS_KEY_ID: 'S3RVER', SECRET_ACCESS_KEY: SECRET, ENDPOINT: url };
  const env = Object.fromEntries(Object.entries(s3).map(([name, value]) => [`RCLONE_CONFIG_S3_${name}`, value]));
  t.match(await shell(block('sh'), env), { code: 0 });
  t.match(await shell('rclone cat s3:bucket/a.txt --header "Service-Key: $TOKEN"', env), { code: 0, out: /one/ });
  const wrongSecret = { ...env, RCLONE_CONFIG_S3_SECRET_ACCESS_KEY: 'x' };
  t.match(await shell('rclone ls s3:bucket --retries 1 --header "Service-Key: $TOKEN"', wrongSecret), { code: 1, out: /SignatureDoesNotMatch/ });
  t.match(await shell('rclone ls s3:bucket --retries 1', env), { code: 1, out: /401/ }, 'without a token');
  t.match(await runClient(PYTHON, ['-c', BOTO, url, key]), { code: 0, out: /b'two'/ });
  t.same(wrong(), []);
  t.ok(asked.length > 4);
}); // prettier-ignore
